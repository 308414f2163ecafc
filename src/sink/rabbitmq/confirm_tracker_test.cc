#include "sink/rabbitmq/confirm_tracker.h"

#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace waybill::rabbitmq {
namespace {

using Tickets = std::vector<std::uint64_t>;

EventId id_of(std::uint64_t ticket) {
  EventId id;
  id.bytes[0] = static_cast<std::uint8_t>(ticket >> 8U);
  id.bytes[1] = static_cast<std::uint8_t>(ticket);
  return id;
}

class ConfirmTrackerTest : public testing::Test {
 protected:
  void send(int count) {
    for (int i = 0; i < count; ++i) {
      ++sent_;
      EXPECT_EQ(sent_, tracker_.add({.ticket = 100 + sent_, .id = id_of(sent_)}));
    }
  }

  Tickets confirm(std::uint64_t number, bool multiple) {
    Tickets tickets;
    EXPECT_TRUE(tracker_.confirm(number, multiple, [&](const Sent& sent) { tickets.push_back(sent.ticket); }));
    return tickets;
  }

  bool refuses(std::uint64_t number, bool multiple) {
    return !tracker_.confirm(number, multiple, [](const Sent&) { ADD_FAILURE() << "nothing may be taken"; });
  }

  ConfirmTracker tracker_;
  std::uint64_t sent_ = 0;
};

TEST_F(ConfirmTrackerTest, TakesOneOrAllUpToOne) {
  send(5);
  EXPECT_EQ((Tickets{103}), confirm(3, false));
  EXPECT_EQ((Tickets{101, 102, 104}), confirm(4, true));
  EXPECT_EQ(1U, tracker_.size());
  EXPECT_EQ(105U, tracker_.oldest().ticket);
  EXPECT_EQ((Tickets{105}), confirm(0, true));
  EXPECT_TRUE(tracker_.empty());
}

TEST_F(ConfirmTrackerTest, AConfirmationThatComesAgainIsNothingNew) {
  send(3);
  EXPECT_EQ((Tickets{101, 102}), confirm(2, true));
  EXPECT_EQ((Tickets{}), confirm(1, false));
  EXPECT_EQ((Tickets{}), confirm(2, true));
  EXPECT_EQ((Tickets{103}), confirm(3, false));
  EXPECT_EQ((Tickets{}), confirm(3, true));
}

TEST_F(ConfirmTrackerTest, WhatWasNeverSentIsNotConfirmed) {
  EXPECT_TRUE(refuses(1, false));
  send(2);
  EXPECT_TRUE(refuses(3, true));
  EXPECT_TRUE(refuses(0, false));
  EXPECT_EQ(2U, tracker_.size());
}

TEST_F(ConfirmTrackerTest, AReturnedMessageIsMarkedUntilItIsConfirmed) {
  send(3);
  EXPECT_TRUE(tracker_.give_back(id_of(2)));
  EXPECT_FALSE(tracker_.give_back(id_of(2))) << "only once";
  EXPECT_FALSE(tracker_.give_back(id_of(9)));
  std::map<std::uint64_t, bool> returned;
  ASSERT_TRUE(tracker_.confirm(3, true, [&](const Sent& sent) { returned[sent.ticket] = sent.returned; }));
  EXPECT_EQ((std::map<std::uint64_t, bool>{{101, false}, {102, true}, {103, false}}), returned);
}

TEST_F(ConfirmTrackerTest, WhatIsAbandonedIsNotConfirmedLater) {
  send(3);
  confirm(2, false);
  Tickets abandoned;
  tracker_.abandon([&](const Sent& sent) { abandoned.push_back(sent.ticket); });
  EXPECT_EQ((Tickets{101, 103}), abandoned);
  EXPECT_TRUE(tracker_.empty());
  send(1);
  EXPECT_EQ((Tickets{104}), confirm(4, true));
}

// Against a set of numbers: whatever is sent, returned and confirmed, in whatever order, each message comes out once,
// when its confirmation comes and not before.
void any_sequence() {
  ConfirmTracker tracker;
  std::set<std::uint64_t> waiting;
  std::set<std::uint64_t> returned;
  std::uint64_t sent = 0;
  const int steps = *rc::gen::inRange(1, 200);
  for (int step = 0; step < steps; ++step) {
    const int what = *rc::gen::inRange(0, 5);
    if (what <= 1) {
      for (int i = *rc::gen::inRange(1, 20); i > 0; --i) {
        waiting.insert(++sent);
        RC_ASSERT(tracker.add({.ticket = sent, .id = id_of(sent)}) == sent);
      }
    } else if (what == 2) {
      const auto number = *rc::gen::inRange<std::uint64_t>(1, sent + 2);
      const bool good = waiting.contains(number) && !returned.contains(number);
      RC_ASSERT(tracker.give_back(id_of(number)) == good);
      if (good) returned.insert(number);
    } else {
      const bool multiple = what == 3;
      const auto number = *rc::gen::inRange<std::uint64_t>(0, sent + 2);
      std::vector<std::uint64_t> expected;
      const bool known = number <= sent && (number > 0 || multiple);
      if (known && multiple) {
        for (const auto each : waiting)
          if (number == 0 || each <= number) expected.push_back(each);
      } else if (known && waiting.contains(number)) {
        expected.push_back(number);
      }
      std::vector<std::uint64_t> taken;
      RC_ASSERT(tracker.confirm(number, multiple, [&](const Sent& each) {
        taken.push_back(each.ticket);
        RC_ASSERT(each.returned == returned.contains(each.ticket));
      }) == known);
      RC_ASSERT(taken == expected);
      for (const auto each : expected) waiting.erase(each);
    }
    RC_ASSERT(tracker.size() == waiting.size());
    if (!waiting.empty()) RC_ASSERT(tracker.oldest().ticket == *waiting.begin());
  }
  std::vector<std::uint64_t> rest;
  tracker.abandon([&](const Sent& each) { rest.push_back(each.ticket); });
  RC_ASSERT(rest == std::vector<std::uint64_t>(waiting.begin(), waiting.end()));
}

TEST(ConfirmTrackerProperty, Row55_EveryMessageIsTakenExactlyWhenItIsConfirmed) {
  EXPECT_TRUE(rc::check("any sequence of messages, returns and confirmations", any_sequence));
}

}  // namespace
}  // namespace waybill::rabbitmq
