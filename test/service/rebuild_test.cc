// A projection is rebuilt while it is kept, read and written for: afterwards it says what the event store says, and
// nobody who read it has seen it go back or waited. With as many events as one likes: WAYBILL_TEST_EVENTS, `make
// proof-rebuild`.

#include <atomic>
#include <cstdlib>
#include <iostream>

#include <fmt/format.h>

#include "waybill/progress.h"

#include "postgres/postgres_fixture.h"
#include "service/tally.h"

namespace waybill {
namespace {

constexpr int streams = 1'000;
constexpr int writers = 3;

class RebuildTest : public PostgresTest {
 protected:
  static int events_wanted() {
    const char* wanted = std::getenv("WAYBILL_TEST_EVENTS");
    return wanted ? std::stoi(wanted) : 6'000;
  }
  static StreamId stream(int number) { return {.type = "order", .id = std::to_string(number % streams)}; }

  void fill(int events) {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 2; ++thread)
      threads.emplace_back([this, events, thread] {
        const auto line = waybill::connect(url);
        const int batch = std::max(1, events / streams / 2);
        for (int i = 0; i < events / 2 / batch; ++i) append_counted(*line, stream(2 * i + thread), batch);
      });
  }

  // Looks again and again, until it is to stop.
  void read(const std::stop_token& stop) {
    const auto line = waybill::connect(url);
    for (std::int64_t before = 0; !stop.stop_requested(); std::this_thread::sleep_for(1ms)) {
      const auto asked = std::chrono::steady_clock::now();
      const std::int64_t sum = line->run("SELECT sum(events) FROM tally.tally_stream").integer(0, 0);
      const auto took = std::chrono::steady_clock::now() - asked;
      slowest = std::max(slowest, std::chrono::duration<double, std::milli>(took).count());
      if (sum < before) ++went_back;
      before = sum;
      ++looks;
    }
  }

  void write(const std::stop_token& stop, unsigned seed) {
    const auto line = waybill::connect(url);
    for (int i = static_cast<int>(seed); !stop.stop_requested(); i += 7) {
      Transaction transaction(*line);
      append_counted(*line, stream(i));
      if (i % 11 == 0) std::this_thread::sleep_for(20ms);  // Others are committed meanwhile.
      if (i % 13 != 0) transaction.commit();
      std::this_thread::sleep_for(2ms);
    }
  }

  Log log() {
    return Log([this](LogLevel level, std::string_view text, std::span<const LogField> fields) {
      if (level >= LogLevel::warning) ++troubles;
      if (text != "projection rebuilt") return;
      for (const LogField& field : fields)
        if (field.name == "exchange") exchange = field.value;
    });
  }

  std::unique_ptr<Connection> db = waybill::connect(url);
  double slowest = 0;  // The reader's own, until it is stopped.
  int went_back = 0;
  int looks = 0;
  std::atomic<int> troubles = 0;
  std::string exchange;
};

TEST_F(RebuildTest, WhileItIsKeptReadAndWrittenFor) {
  fill(events_wanted());
  Projector live(
      tally(), [this] { return waybill::connect(url); }, log());
  live.catch_up();
  EXPECT_EQ("", difference(*db)) << "the live one";

  std::jthread keeping([&](const std::stop_token& stop) { live.run(stop); });
  std::jthread reading([this](const std::stop_token& stop) { read(stop); });
  std::vector<std::jthread> writing;
  for (unsigned seed = 1; seed <= writers; ++seed)
    writing.emplace_back([this, seed](const std::stop_token& stop) { write(stop, seed); });

  Projector other(
      tally(), [this] { return waybill::connect(url); }, log());
  const auto begun = std::chrono::steady_clock::now();
  std::int64_t handled = 0;
  {
    ProgressBar bar;
    other.rebuild([&](std::int64_t done, std::int64_t of) {
      handled = done;
      bar.show(done, of);
    });
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begun;

  std::this_thread::sleep_for(300ms);  // They go on with the new one.
  writing.clear();
  keeping.request_stop();
  keeping.join();
  reading.request_stop();
  reading.join();
  live.catch_up();
  EXPECT_EQ("", difference(*db)) << "the new one";
  EXPECT_EQ(0, went_back);
  EXPECT_EQ(0, troubles);
  EXPECT_EQ(live.progress().handled, app.number("SELECT count(*) FROM waybill.stream_event"));
  std::cout << fmt::format(
      "rebuild: {} events, of which {} were written meanwhile, in {:.1f} s: {} a second; both were held for {} to be "
      "exchanged; of {} looks at it the slowest took {:.1f} ms\n",
      grouped(handled), grouped(handled - events_wanted()), took.count(),
      grouped(static_cast<std::int64_t>(static_cast<double>(handled) / took.count())), exchange, grouped(looks),
      slowest);
}

}  // namespace
}  // namespace waybill
