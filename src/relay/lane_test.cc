#include "relay/lane.h"

#include <set>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

// Keys are single letters, events are named by their numbers: "a1 b2 a3" is event 1 of key a, ….
class LaneTest : public testing::Test {
 protected:
  void read(std::string_view events, bool ends_window = true) {
    Chunk chunk{.shard = 3, .window = std::make_shared<Window>(), .ends_window = ends_window, .bytes = 10};
    windows_.push_back(chunk.window);
    for (std::size_t i = 0; i + 1 < events.size(); i += 3) {
      EventView event{.seq = events[i + 1] - '0', .tenant = "t"};
      if (events[i] != '-') event.key = keys_.emplace_back(1, events[i]);
      chunk.events.push_back(event);
    }
    lane_.append(std::move(chunk), [&](const EventView& event, std::optional<Steady>& due) {
      if (scheduled_.contains(event.seq)) due = Steady(1h);
      return skipped_.contains(event.seq) ? Lane::Way::skip : Lane::Way::publish;
    });
  }

  // Hands out all that may go now.
  std::string go() {
    std::string names;
    while (const auto position = lane_.next()) {
      names += static_cast<char>('0' + lane_.event(*position).seq);
      under_way_[lane_.event(*position).seq] = *position;
    }
    return names;
  }
  void done(int seq) { lane_.finish(under_way_.at(seq)); }

  std::string settled() {
    const auto progress = lane_.progress();
    if (!progress) return "nothing";
    return std::to_string(progress->seq) + (progress->window_done ? " done" : "") + " +" +
           std::to_string(progress->count);
  }

  Lane lane_{{"out", 3, 1}, 1};
  std::map<std::int64_t, Lane::Position> under_way_;
  std::deque<std::string> keys_;
  std::set<std::int64_t> skipped_;
  std::set<std::int64_t> scheduled_;
  std::vector<std::shared_ptr<const Window>> windows_;
};

TEST_F(LaneTest, OneOfAKeyIsUnderWay) {
  read("a1 b2 a3 a4 b5");
  EXPECT_EQ("12", go());
  done(1);
  EXPECT_EQ("3", go());
  done(2);
  EXPECT_EQ("5", go());
  done(3);
  EXPECT_EQ("4", go());
}

TEST_F(LaneTest, KeysAreKeptInOrderOverChunks) {
  read("a1");
  EXPECT_EQ("1", go());
  read("a2 b3");
  EXPECT_EQ("3", go());
  done(1);
  EXPECT_EQ("2", go());
}

TEST_F(LaneTest, AnEventWithoutAKeyWaitsForNobody) {
  read("-1 -2 -3");
  EXPECT_EQ("123", go());
}

TEST_F(LaneTest, SettlesThePrefixOnly) {
  read("a1 b2 c3", false);
  go();
  EXPECT_EQ("nothing", settled());
  done(2);
  EXPECT_EQ("nothing", settled());
  done(1);
  EXPECT_EQ("2 +2", settled());
  lane_.saved();
  EXPECT_EQ("nothing", settled());
  done(3);
  EXPECT_EQ("3 +1", settled());
}

TEST_F(LaneTest, TheWindowIsDoneWithItsLastEvent) {
  read("a1", false);
  read("b2", true);
  go();
  done(2);
  done(1);
  EXPECT_EQ("2 done +2", settled());
  EXPECT_EQ(windows_[1], lane_.progress()->window);
  EXPECT_EQ(0U, lane_.unsettled());
  EXPECT_EQ(0U, lane_.bytes());
}

TEST_F(LaneTest, AnEmptyChunkMovesOnceTheEventsBeforeItAreSettled) {
  read("a1");
  read("");
  go();
  EXPECT_EQ("nothing", settled());
  done(1);
  EXPECT_EQ("1 done +1", settled());
  EXPECT_EQ(windows_[1], lane_.progress()->window);
}

TEST_F(LaneTest, SkippedEventsSettleByThemselves) {
  skipped_ = {1, 3};
  read("a1 b2 a3");
  EXPECT_EQ("1 +1", settled());
  EXPECT_EQ("2", go());
  done(2);
  EXPECT_EQ("3 done +3", settled());
}

TEST_F(LaneTest, AFailedEventHoldsItsKeyAndNoOther) {
  read("a1 a2 b3");
  EXPECT_EQ("13", go());
  EXPECT_EQ(1, lane_.fail(under_way_.at(1)));
  lane_.again_at(under_way_.at(1), Steady(10s));
  done(3);
  EXPECT_EQ("", go());
  EXPECT_EQ(Steady(10s), lane_.release_due(Steady(9s)));
  EXPECT_EQ("", go());
  EXPECT_EQ(std::nullopt, lane_.release_due(Steady(10s)));
  EXPECT_EQ("1", go());
  EXPECT_EQ(2, lane_.fail(under_way_.at(1)));
  lane_.again_first(under_way_.at(1));
  EXPECT_EQ("1", go());
  done(1);
  EXPECT_EQ("2", go());
}

TEST_F(LaneTest, AScheduledEventLeavesItsKeysOrder) {
  scheduled_ = {1};
  read("a1 a2");
  EXPECT_EQ("2", go());
  done(2);
  EXPECT_EQ("nothing", settled());
  lane_.release_due(Steady(1h));
  EXPECT_EQ("1", go());
  done(1);
  EXPECT_EQ("2 done +2", settled());
}

TEST_F(LaneTest, AnAbandonedRestIsNotHandedOut) {
  read("a1 a2 b3 b4");
  EXPECT_EQ("13", go());
  lane_.abandon_rest();
  done(1);
  done(3);
  EXPECT_EQ("", go());
  EXPECT_EQ("1 +1", settled());
  EXPECT_EQ(0U, lane_.under_way());
}

// Whatever is read, answered and failed in whatever order: finished events of a key come in order, one is
// under way at most, the settled part only grows, and in the end everything is settled.
RC_GTEST_PROP(LaneProperty, KeepsOrderWhateverHappens, ()) {
  Lane lane({"out", 0, 1}, 1);
  std::deque<std::string> keys;
  std::map<std::string, std::int64_t> last_finished;
  std::map<std::string, int> under_way_per_key;
  std::vector<Lane::Position> under_way;
  std::int64_t seq = 0;
  std::int64_t settled = 0;
  Steady now{};

  const auto check_progress = [&] {
    if (const auto progress = lane.progress(); progress && progress->count > 0) {
      RC_ASSERT(progress->seq > settled);
      settled = progress->seq;
      lane.saved();
    }
  };
  const auto hand_out = [&] {
    while (const auto position = lane.next()) {
      const EventView& event = lane.event(*position);
      if (!event.key.empty()) RC_ASSERT(++under_way_per_key[std::string(event.key)] == 1);
      under_way.push_back(*position);
    }
  };
  const auto answer = [&](std::size_t index, bool delivered) {
    const Lane::Position position = under_way[index];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(index));
    const EventView event = lane.event(position);
    const std::string key(event.key);
    if (!key.empty()) --under_way_per_key[key];
    if (!delivered) {
      lane.fail(position);
      lane.again_at(position, now + 1s);
      return;
    }
    if (!key.empty()) {
      RC_ASSERT(event.seq > last_finished[key]);
      last_finished[key] = event.seq;
    }
    lane.finish(position);
  };

  const auto rounds = *rc::gen::inRange(1, 40);
  for (int round = 0; round < rounds; ++round) {
    Chunk chunk{.window = std::make_shared<Window>(), .ends_window = *rc::gen::arbitrary<bool>()};
    const auto count = *rc::gen::inRange(0, 8);
    for (int i = 0; i < count; ++i) {
      keys.push_back(*rc::gen::element<std::string>("a", "b", "c", ""));
      chunk.events.push_back({.seq = ++seq, .tenant = "t", .key = keys.back()});
    }
    lane.append(std::move(chunk),
                [](const EventView&, std::optional<Steady>&) { return Lane::Way::publish; });
    hand_out();
    const auto answers = *rc::gen::inRange<std::size_t>(0, under_way.size() + 1);
    for (std::size_t i = 0; i < answers; ++i)
      answer(*rc::gen::inRange<std::size_t>(0, under_way.size()), *rc::gen::arbitrary<bool>());
    now += 500ms;
    lane.release_due(now);
    check_progress();
  }
  while (lane.unsettled() > 0) {
    now += 1s;
    lane.release_due(now);
    hand_out();
    RC_ASSERT(!under_way.empty());
    while (!under_way.empty()) answer(under_way.size() - 1, true);
  }
  check_progress();
  RC_ASSERT(settled == seq);
}

}  // namespace
}  // namespace waybill
