#include "upkeep/alerts.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace waybill {
namespace {

using namespace std::chrono_literals;

class AlertsTest : public testing::Test {
 protected:
  AlertsTest() {
    status_.now = Time(1'000'000s);
    DestinationStatus destination;
    destination.name = "mail";
    destination.shards = 16;
    destination.shards_owned = 16;
    status_.destinations = {destination};
    RelayStatus relay;
    relay.alive = true;
    relay.destinations = {"mail"};
    status_.relays = {relay};
  }

  void pending(std::int64_t count, std::chrono::seconds age) {
    status_.destinations[0].pending = {count, true};
    status_.destinations[0].oldest_pending = status_.now - age;
    status_.destinations[0].last_settled = status_.now - 1s;
  }

  void undelivered(Standing standing, std::int64_t count) {
    status_.destinations[0].undelivered[standing] = {count, true};
  }

  std::string found() const {
    std::string text;
    for (const auto& alert : alerts(status_, configured_, limits_))
      text += alert.name + " " + alert.destination + ": " + alert.text + "; ";
    return text;
  }

  StoreStatus status_;
  std::vector<std::string> configured_{"mail"};
  AlertLimits limits_;
};

TEST_F(AlertsTest, NothingWhileEventsMove) {
  EXPECT_EQ("", found());
  pending(1'000, 60s);
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, LateByTheLimit) {
  pending(1, 61s);
  EXPECT_EQ("late mail: the oldest pending event has waited 61s; ", found());
  limits_.age_max = 5min;
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, ABacklogByTheLimit) {
  pending(1'001, 1s);
  EXPECT_EQ("backlog mail: 1001 pending events; ", found());
  limits_.pending_max.reset();
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, NothingMovesAlthoughItShould) {
  pending(1, 10s);
  status_.destinations[0].last_settled = status_.now - 6s;
  EXPECT_EQ("lag mail: nothing was settled for 6s although events are pending; ", found());
  status_.destinations[0].last_settled.reset();
  EXPECT_EQ("lag mail: nothing was settled for 10s although events are pending; ", found());
}

TEST_F(AlertsTest, AnEventAfterALongQuietTimeIsNoLag) {
  pending(1, 1s);
  status_.destinations[0].last_settled = status_.now - 24h;
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, APauseIsItsOwnAlertAndNoLag) {
  status_.destinations[0].paused = true;
  EXPECT_EQ("", found());
  pending(1, 10s);
  status_.destinations[0].last_settled = status_.now - 10s;
  EXPECT_EQ("paused mail: it is paused, with 1 event pending; ", found());
  limits_.paused = false;
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, WhatWaitsForAPersonAndWhatFailsOften) {
  undelivered(Standing::retrying, 10);
  undelivered(Standing::blocked, 100'000);
  undelivered(Standing::scheduled, 100'000);
  undelivered(Standing::dismissed, 100'000);
  status_.destinations[0].blocked_keys = {10, true};
  status_.destinations[0].attempts_most = 10;
  EXPECT_EQ("", found());
  undelivered(Standing::retrying, 11);
  undelivered(Standing::held, 1);
  undelivered(Standing::dead, 1);
  status_.destinations[0].blocked_keys = {11, true};
  EXPECT_EQ(
      "retrying mail: 11 events to be tried again; blocked mail: 11 blocked keys; see 'waybill blocked'; "
      "held mail: 1 event waiting for a person; see 'waybill dead list'; "
      "dead mail: 1 dead letter; see 'waybill dead list'; ",
      found());
}

// Seed 000: "Retry count > 10".
TEST_F(AlertsTest, AnEventThatFailsAgainAndAgain) {
  undelivered(Standing::retrying, 1);
  status_.destinations[0].attempts_most = 10;
  EXPECT_EQ("", found());
  status_.destinations[0].attempts_most = 11;
  EXPECT_EQ(
      "attempts mail: an event has failed 11 times and is tried again; see 'waybill events list --standing retrying'; ",
      found());
  limits_.attempts_max.reset();
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, WhatIsWrongWithARelayItself) {
  status_.relays[0].name = "r1";
  status_.relays[0].troubles = {{.destination = "", .text = "cannot clean: the disk is full"}};
  EXPECT_EQ("upkeep : relay r1: cannot clean: the disk is full; ", found());
  status_.relays[0].alive = false;
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, WhoHoldsTheLogBack) {
  limits_.age_max = 24h * 365;
  pending(1, 24h * 7 + 1s);
  EXPECT_EQ("held-back mail: it holds the log back: its oldest pending event is 7d old, past the retention; ", found());
  limits_.retention.reset();
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, EveryNameIsListed) {
  pending(2'000, 24h * 8);
  status_.relays.clear();
  for (const Alert& alert : alerts(status_, configured_, limits_))
    EXPECT_NE(std::end(alert_names), std::find(std::begin(alert_names), std::end(alert_names), alert.name))
        << alert.name;
}

TEST_F(AlertsTest, NobodyWorksOnWhatIsPending) {
  pending(3, 1s);
  status_.relays[0].alive = false;
  EXPECT_EQ("no-relay mail: 3 events pending, and no relay is alive; ", found());
  status_.relays[0].alive = true;
  status_.relays[0].destinations = {"other"};
  EXPECT_EQ("no-relay mail: 3 events pending, and no relay is alive; ", found());
  pending(0, 0s);
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, NobodyWorksOnWhatIsUndelivered) {
  status_.relays[0].alive = false;
  undelivered(Standing::dead, 0);
  undelivered(Standing::dismissed, 5);
  EXPECT_EQ("", found());
  undelivered(Standing::retrying, 1);
  EXPECT_EQ("no-relay mail: 1 event retrying, and no relay is alive; ", found());
  undelivered(Standing::blocked, 2);
  undelivered(Standing::scheduled, 3);
  pending(4, 1s);
  EXPECT_EQ("no-relay mail: 4 events pending, 1 retrying, 2 blocked, 3 scheduled, and no relay is alive; ", found());
}

TEST_F(AlertsTest, APauseHoldsBackWhatIsUndeliveredToo) {
  status_.destinations[0].paused = true;
  undelivered(Standing::blocked, 1);
  EXPECT_EQ("paused mail: it is paused, with 1 event blocked; ", found());
}

TEST_F(AlertsTest, ExpiredByTheLimit) {
  undelivered(Standing::expired, 2);
  EXPECT_EQ("expired mail: 2 events expired before delivery; see 'waybill events list --standing expired'; ", found());
  limits_.expired_max.reset();
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, ADestinationThatNeverBegan) {
  configured_ = {"mail", "log"};
  EXPECT_EQ("", found());
  status_.events = {1, true};
  EXPECT_EQ("no-relay log: no relay has ever served it, and there are events; ", found());
}

TEST_F(AlertsTest, ShardsWithoutAnOwner) {
  status_.destinations[0].shards_owned = 12;
  EXPECT_EQ("unowned mail: 4 of 16 shards have no relay; ", found());
}

TEST_F(AlertsTest, RelaysThatDisagreeAboutTheRules) {
  status_.relays[0].name = "r1";
  status_.relays.push_back(status_.relays[0]);
  status_.relays[1].name = "r2";
  status_.relays[0].rules["mail"] = {.topic = {"b", "a"}};
  status_.relays[1].rules["mail"] = {.topic = {"a", "b", "a"}};
  EXPECT_EQ("", found()) << "the same, written differently";
  status_.relays[1].rules.clear();
  EXPECT_EQ(
      "rules mail: live relays disagree about which events it gets: relay r1 by topic 'a', 'b'; relay r2 by every "
      "event; reload those with the old configuration, then rewind if events were skipped that should not have been; ",
      found());
  status_.relays[1].alive = false;
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, ADestinationThatIsAway) {
  status_.relays[0].name = "r1";
  status_.relays[0].troubles = {{.destination = "mail", .text = "connection refused"}};
  EXPECT_EQ("away mail: relay r1 waits for it: connection refused; ", found());
  status_.relays[0].alive = false;
  EXPECT_EQ("", found());
}

}  // namespace
}  // namespace waybill
