// Programs that keep and rebuild a projection, killed again and again while others write: each event has its effect
// once.

#include <atomic>
#include <chrono>
#include <csignal>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "service/databases.h"
#include "service/tally.h"
#include "support/child_process.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

class ProjectionKillTest : public DatabaseTest {
 protected:
  ChildProcess start(const std::string& what) { return {{PROJECTOR_PROGRAM, url, what}, log_.path() + "/log"}; }
  std::string log() const {
    std::ifstream file(log_.path() + "/log");
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TmpFolder log_;
};

INSTANTIATE_TEST_SUITE_P(Databases, ProjectionKillTest, testing::Values("postgres", "sqlite"), database_name);

TEST_P(ProjectionKillTest, EachEventHasItsEffectOnce) {
  constexpr int kills = 12;
  std::mt19937 random(7);
  std::atomic<bool> done = false;
  Projector one(tally(), [this] { return connect(url); });
  append_counted(*db, {.type = "order", .id = "0"}, 800);
  one.catch_up();
  {
    std::jthread writer([&] {
      const auto line = connect(url);
      for (int i = 0; !done; ++i)
        with_retries(*line,
                     [&](Connection&) { append_counted(*line, {.type = "order", .id = std::to_string(i % 5)}, 3); },
                     {.attempts = 10'000});
    });
    for (int i = 0; i < kills; ++i) {
      ChildProcess running = start("run");
      ChildProcess rebuilding = start("rebuild");
      std::this_thread::sleep_for(std::chrono::milliseconds(20 + random() % 300));
      EXPECT_TRUE(running.running()) << log();
      EXPECT_TRUE(rebuilding.running()) << log();
      (i % 2 == 0 ? running : rebuilding).signal(SIGKILL);
      (i % 2 == 0 ? rebuilding : running).signal(SIGKILL);
      running.wait();
      rebuilding.wait();
    }
    done = true;
  }
  const auto deadline = std::chrono::steady_clock::now() + 60s;  // for what the server has not noticed yet
  while (true) {
    try {
      one.catch_up();
      EXPECT_EQ("", difference(*db));
      one.rebuild();
      break;
    } catch (const Error& error) {
      if (error.remedy() != Remedy::retry || std::chrono::steady_clock::now() > deadline) throw;
    }
  }
  EXPECT_EQ("", difference(*db));
  EXPECT_EQ(1U, projections(*db).size());
}

}  // namespace
}  // namespace waybill
