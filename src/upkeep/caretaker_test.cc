#include "upkeep/caretaker.h"

#include <deque>
#include <functional>
#include <future>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/testing.h"

#include "support/store_wrapper.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

// A store whose upkeep does what the test says.
class KeptStore final : public WrappedStore {
 public:
  using WrappedStore::WrappedStore;
  std::function<Cleaned(const CleanOptions&)> clean{};
  int open = 0;

  std::unique_ptr<Upkeep> upkeep() override { return std::make_unique<Kept>(*this); }

 private:
  class Kept final : public Upkeep {
   public:
    explicit Kept(KeptStore& store) : store_(store) { ++store_.open; }
    ~Kept() override { --store_.open; }
    Cleaned clean(const CleanOptions& options) override { return store_.clean(options); }
    Anchored anchor(const Operation& /*operation*/, bool /*dry*/) override { return {}; }

   private:
    KeptStore& store_;
  };
};

class CaretakerTest : public testing::Test {
 protected:
  CaretakerTest() {
    store_.clean = [this](const CleanOptions& options) {
      ++calls_;
      asked_ = options;
      if (next_.empty()) return Cleaned{};
      const auto now = next_.front();
      next_.pop_front();
      return now();
    };
  }
  // As its thread would, without waiting.
  void live(std::chrono::milliseconds time) {
    const Steady end = clock_.steady() + time;
    while (clock_.steady() < end) {
      const Steady next = std::min(end, caretaker_.step());
      clock_.advance(std::chrono::ceil<std::chrono::microseconds>(next - clock_.steady()));
    }
  }
  static Cleaned away() { throw Error(Remedy::retry, "the store is away"); }

  ManualClock clock_;
  std::unique_ptr<Store> memory_ = memory_store({}, clock_);
  KeptStore store_{*memory_};
  std::vector<std::string> said_;
  Log log_{[this](LogLevel level, std::string_view text, std::span<const LogField> fields) {
    std::string line = std::string(to_string(level)) + ": " + std::string(text);
    for (const LogField& field : fields) line += " " + field.value;
    said_.push_back(line);
  }};
  int calls_ = 0;
  CleanOptions asked_;
  std::deque<std::function<Cleaned()>> next_;
  std::string told_ = "nothing";
  Caretaker caretaker_{store_,
                       {.clean = {.dead_older_than = 7s, .archive_to = "there"},
                        .tell = [this](const std::string& trouble) { told_ = trouble; },
                        .interval = 1h},
                       log_,
                       clock_};
};

TEST_F(CaretakerTest, CleansSoonAfterTheStartAndThenOnceInAnInterval) {
  live(20s);
  EXPECT_EQ(0, calls_);
  live(20s);
  EXPECT_EQ(1, calls_);
  EXPECT_EQ(7s, asked_.dead_older_than);
  EXPECT_EQ("there", asked_.archive_to);
  live(24h);
  EXPECT_GE(calls_, 1 + 21);
  EXPECT_LE(calls_, 1 + 27);
  EXPECT_EQ(0, store_.open);  // No connection lies idle.
  EXPECT_THAT(said_, ElementsAre());
}

TEST_F(CaretakerTest, GoesOnWhileThereIsMore) {
  for (int i = 0; i < 3; ++i)
    next_.emplace_back(
        [i] { return Cleaned{.events = {.value = 100}, .dead = {.value = 1}, .inbox = {.value = 5}, .more = i < 2}; });
  live(40s);
  EXPECT_EQ(3, calls_);
  EXPECT_THAT(said_, ElementsAre("info: cleaned 300 3 0 15 0"));
}

TEST_F(CaretakerTest, AnOutageIsSaidOnceAndIsOverOnce) {
  for (int i = 0; i < 5; ++i) next_.emplace_back(away);
  live(2min);
  EXPECT_TRUE(caretaker_.failing());
  EXPECT_EQ("cannot clean: the store is away", told_);
  live(8min);
  EXPECT_FALSE(caretaker_.failing());
  EXPECT_EQ("", told_);
  EXPECT_EQ(6, calls_);
  EXPECT_THAT(said_,
              ElementsAre("error: cannot clean; will try again the store is away", "info: cleaning works again"));
  next_.emplace_back(away);
  live(2h);
  EXPECT_EQ(4U, said_.size());
}

TEST_F(CaretakerTest, WhoeverHoldsTheLogBackIsNamedOnce) {
  EXPECT_FALSE(caretaker_.held_back());
  for (int i = 0; i < 3; ++i)
    next_.emplace_back([] { return Cleaned{.held_back = {"destination 'old' has not passed it"}}; });
  live(2h);
  EXPECT_THAT(*caretaker_.held_back(), ElementsAre("destination 'old' has not passed it"));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("destination 'old'")));
  live(3h);
  EXPECT_THAT(*caretaker_.held_back(), ElementsAre());
}

TEST_F(CaretakerTest, AStopEndsItsWait) {
  Caretaker caretaker(store_, {}, log_);
  std::jthread thread([&](const std::stop_token& stop) { caretaker.run(stop); });
  thread.request_stop();
  thread.join();
}

TEST_F(CaretakerTest, AStopReachesACleaningThatIsUnderWay) {
  std::promise<void> begun;
  store_.clean = [&](const CleanOptions& options) {
    begun.set_value();
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!options.stop.stop_requested() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(options.stop.stop_requested());
    return Cleaned{.more = true};
  };
  Caretaker caretaker(store_, {.interval = 1ms}, log_);
  std::jthread thread([&](const std::stop_token& stop) { caretaker.run(stop); });
  begun.get_future().wait();
  thread.request_stop();
  thread.join();
  EXPECT_THAT(said_, ElementsAre());
}

}  // namespace
}  // namespace waybill
