#include "app/alerts.h"

#include <gtest/gtest.h>

namespace waybill::app {
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
  pending(100'000, 60s);
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, LateByTheLimit) {
  pending(1, 61s);
  EXPECT_EQ("late mail: the oldest pending event has waited 61s; ", found());
  limits_.age_max = 5min;
  EXPECT_EQ("", found());
}

TEST_F(AlertsTest, BacklogOnlyIfAskedFor) {
  pending(11, 1s);
  limits_.pending_max = 10;
  EXPECT_EQ("backlog mail: 11 events are pending; ", found());
}

TEST_F(AlertsTest, NobodyWorksOnWhatIsPending) {
  pending(3, 1s);
  status_.relays[0].alive = false;
  EXPECT_EQ("no-relay mail: 3 events are pending and no relay is alive; ", found());
  status_.relays[0].alive = true;
  status_.relays[0].destinations = {"other"};
  EXPECT_EQ("no-relay mail: 3 events are pending and no relay is alive; ", found());
  pending(0, 0s);
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

TEST_F(AlertsTest, ADestinationThatIsAway) {
  status_.relays[0].name = "r1";
  status_.relays[0].troubles = {{.destination = "mail", .text = "connection refused"}};
  EXPECT_EQ("away mail: relay r1 waits for it: connection refused; ", found());
  status_.relays[0].alive = false;
  EXPECT_EQ("", found());
}

}  // namespace
}  // namespace waybill::app
