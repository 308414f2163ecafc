#include "sink/stream/hub.h"

#include <gtest/gtest.h>

#include "sink/stream/fake_log.h"
#include "sink/stream/readers.h"

namespace waybill::stream {
namespace {

// Steps both readers by hand.
class HubTest : public testing::Test {
 protected:
  ClientPtr join(std::optional<std::string> place) {
    clients_.push_back(hub_.join({}, std::move(place)));
    return clients_.back();
  }
  ClientPtr join_now() {
    auto client = join(std::nullopt);
    head_.step();
    return client;
  }
  // "0 1 2": the numbers of the events it can take now.
  std::string take(const ClientPtr& client) {
    std::string result;
    while (const auto frame = hub_.take(client).frame) {
      const auto at = frame->text.find("\"seq\":") + 6;
      result += (result.empty() ? "" : " ") + frame->text.substr(at, frame->text.find(',', at) - at);
    }
    return result;
  }
  int status(const ClientPtr& client) {
    const auto response = hub_.open(client);
    return response ? response->status : 0;
  }

  FakeLog log_;
  Hub hub_{{.events_max = 4}};
  HeadReader head_{"test", hub_, [this] { return log_.follow(); }, {}, {}};
  CatchUpReader catch_up_{"test", hub_, [this] { return log_.follow(); }, {}, {}};
  std::vector<ClientPtr> clients_;
};

TEST_F(HubTest, FromNowOn) {
  log_.append_many(2);
  const auto client = join(std::nullopt);
  EXPECT_EQ(0, status(client));  // The head does not run yet.
  head_.step();
  EXPECT_EQ(200, status(client));
  EXPECT_EQ("p2", hub_.take(client).place);
  log_.append_many(2);
  EXPECT_EQ("", take(client));
  head_.step();
  EXPECT_EQ("2 3", take(client));
  EXPECT_EQ("p4", hub_.take(client).place);
}

TEST_F(HubTest, FromTheBeginningAndOnWithoutASeam) {
  log_.append_many(3);
  const auto client = join("");
  catch_up_.step();
  EXPECT_EQ(0, status(client));  // Nothing is read for it before the head runs.
  head_.step();
  catch_up_.step();
  EXPECT_EQ(200, status(client));
  log_.append_many(1);
  head_.step();
  EXPECT_EQ("0 1 2 3", take(client));
}

TEST_F(HubTest, WhatBothReadersFindIsSentOnce) {
  const auto first = join_now();
  const auto client = join("");
  log_.append_many(3);  // Unknown to the head when the errand begins.
  catch_up_.step();
  EXPECT_EQ("0 1 2", take(client));
  head_.step();
  log_.append_many(1);
  head_.step();
  EXPECT_EQ("3", take(client));
  EXPECT_EQ("0 1 2 3", take(first));
}

TEST_F(HubTest, WhatTheHeadReadsWhileAPageIsReadIsNotLost) {
  join_now();
  const auto client = join("");
  const auto errand = hub_.next_errand();
  log_.append_many(2);
  head_.step();
  hub_.fulfil(*errand, {.place = "p0"});  // The page was read before.
  EXPECT_EQ("0 1", take(client));
}

TEST_F(HubTest, ResumesInTheRingWithoutReading) {
  join_now();
  log_.append_many(4);
  head_.step();
  for (std::size_t i = 1; i <= 4; ++i) {
    const auto client = join(FakeLog::place(i));
    EXPECT_EQ(200, status(client));
    EXPECT_EQ(std::string("1 2 3").substr(std::min<std::size_t>(5, (i - 1) * 2)), take(client)) << i;
  }
  EXPECT_FALSE(hub_.next_errand());
}

TEST_F(HubTest, TheSlowGoOnWhereTheyWere) {
  const auto slow = join_now();
  log_.append_many(2);
  head_.step();
  EXPECT_TRUE(hub_.take(slow).frame);  // 0, and then nothing for a while.
  log_.append_many(10);
  head_.step();  // Runs over it.
  EXPECT_EQ("", take(slow));
  catch_up_.step();
  EXPECT_EQ("1 2 3 4 5 6 7 8 9 10 11", take(slow));
  log_.append_many(1);
  head_.step();
  EXPECT_EQ("12", take(slow));
}

TEST_F(HubTest, OneRunOverWhileItTakesItsPageReadsOn) {
  join_now();
  log_.append_many(3);
  const auto client = join("");
  catch_up_.step();
  EXPECT_TRUE(hub_.take(client).frame);
  log_.append_many(9);
  head_.step();
  EXPECT_EQ("1 2", take(client));
  catch_up_.step();
  EXPECT_EQ("3 4 5 6 7 8 9 10 11", take(client));
}

TEST_F(HubTest, LongLogsAreReadPageByPageInTurn) {
  log_.append_many(600);
  join_now();
  const auto one = join("");
  const auto two = join("p100");
  catch_up_.step();
  EXPECT_NE("", take(one));
  EXPECT_EQ("", take(two));
  catch_up_.step();
  EXPECT_EQ("", take(one));
  EXPECT_NE("", take(two));
  catch_up_.step();
  catch_up_.step();
  take(one);
  EXPECT_TRUE(take(two).ends_with("598 599"));
  catch_up_.step();
  EXPECT_TRUE(take(one).ends_with("598 599"));
}

TEST_F(HubTest, RefusesWhatTheStoreRefuses) {
  log_.append_many(5);
  log_.forget_before(3);
  join_now();
  const auto old = join("p1");
  const auto nonsense = join("x");
  catch_up_.step();
  catch_up_.step();
  EXPECT_EQ(410, status(old));
  EXPECT_EQ("the log does not reach back to it\n", hub_.open(old)->body);
  EXPECT_EQ("that is no place\n", hub_.open(nonsense)->body);
}

TEST_F(HubTest, AnOutageOnlyDelays) {
  log_.append_many(2);
  log_.go_away(true);
  const auto now = join_now();
  const auto client = join("p1");
  catch_up_.step();
  EXPECT_EQ(0, status(client));
  log_.go_away(false);
  head_.step();
  log_.go_away(true);
  catch_up_.step();
  log_.append_many(1);
  head_.step();
  log_.go_away(false);
  catch_up_.step();
  head_.step();
  EXPECT_EQ("1 2", take(client));
  EXPECT_EQ("2", take(now));
}

TEST_F(HubTest, WhereTheLogBreaksOffClientsMustComeAgain) {
  const auto client = join_now();
  log_.append_many(9);
  log_.forget_before(5);
  head_.step();
  EXPECT_TRUE(hub_.take(client).ended);
  EXPECT_FALSE(hub_.head());
  const auto again = join("p6");
  head_.step();
  catch_up_.step();
  EXPECT_EQ("6 7 8", take(again));
}

TEST_F(HubTest, RestsWithoutClients) {
  const auto client = join_now();
  log_.append_many(1);
  head_.step();
  hub_.leave(client);
  EXPECT_EQ(Steady::max(), head_.step());
  EXPECT_EQ(0, log_.followers());
  log_.append_many(1);
  const auto next = join_now();
  EXPECT_EQ("", take(next));
}

TEST_F(HubTest, LeavingIsPossibleAtAnyTime) {
  join_now();
  log_.append_many(3);
  const auto client = join("");
  const auto errand = hub_.next_errand();
  hub_.leave(client);
  hub_.fulfil(*errand, {.place = "p0"});
  hub_.put_back(*errand);
  hub_.refuse(*errand, "no");
  EXPECT_FALSE(hub_.next_errand());
  const auto other = join("");
  hub_.leave(other);
  EXPECT_FALSE(hub_.next_errand());
}

TEST_F(HubTest, CloseEndsAllAndThoseToCome) {
  const auto client = join_now();
  hub_.close();
  EXPECT_TRUE(hub_.take(client).ended);
  EXPECT_EQ(503, status(join(std::nullopt)));
}

TEST(Pace, SlowsDownAndQuickens) {
  Pace pace;
  std::string waits;
  for (int i = 0; i < 8; ++i) waits += std::to_string(pace.next().count()) + " ";
  EXPECT_EQ("5 10 20 40 80 160 250 250 ", waits);
  pace.quicken();
  EXPECT_EQ(5, pace.next().count());
}

// What was read for clients that take nothing is bounded for all of them together.
TEST(HubPages, AreReadOnlyWhileThereIsRoom) {
  FakeLog log;
  Hub hub({.events_max = 1, .pages_bytes_max = 1});
  HeadReader head("test", hub, [&] { return log.follow(); }, {}, {});
  CatchUpReader catch_up("test", hub, [&] { return log.follow(); }, {}, {});
  log.append_many(3);
  const auto first = hub.join({}, "");
  const auto second = hub.join({}, "");
  head.step();
  for (int i = 0; i < 5; ++i) catch_up.step();
  ASSERT_TRUE(hub.take(first).frame);
  EXPECT_FALSE(hub.take(second).frame) << "the first one's page is all there may be";
  while (hub.take(first).frame) {
  }
  for (int i = 0; i < 5; ++i) catch_up.step();
  EXPECT_TRUE(hub.take(second).frame);
  hub.leave(second);
  const auto third = hub.join({}, "");
  for (int i = 0; i < 5; ++i) catch_up.step();
  EXPECT_TRUE(hub.take(third).frame) << "who is gone takes no room";
}

}  // namespace
}  // namespace waybill::stream
