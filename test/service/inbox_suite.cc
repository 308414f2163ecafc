#include <chrono>
#include <future>

#include "waybill/enqueue.h"
#include "waybill/inbox.h"

#include "service/databases.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

class InboxSuite : public DatabaseTest {
 protected:
  InboxSuite() { db->script("CREATE TABLE effect (message text NOT NULL, consumer text NOT NULL)"); }

  static void take_effect(Connection& line, const std::string& message, const std::string& consumer = "billing") {
    line.run("INSERT INTO effect (message, consumer) VALUES ($1, $2)", message, consumer);
  }
  bool handle(Connection& line, const std::string& message) const {
    return inbox.once(line, message, [&](Connection& same) { take_effect(same, message); });
  }

  const Inbox inbox{"billing"};
};

INSTANTIATE_TEST_SUITE_P(Databases, InboxSuite, every_database, database_name);

TEST_P(InboxSuite, Row84_ADuplicateRunsNothingAndSaysSo) {
  EXPECT_TRUE(handle(*db, "m-1"));
  EXPECT_FALSE(handle(*db, "m-1"));
  EXPECT_TRUE(handle(*db, "m-2"));
  EXPECT_FALSE(handle(*db, "m-1"));
  EXPECT_EQ(2, count("effect"));
  EXPECT_EQ(2, count(table("inbox")));
}

TEST_P(InboxSuite, Row84_WhatWasRolledBackIsHandledByTheNext) {
  const auto fails = [&](Connection& line) {
    take_effect(line, "m-1");
    enqueue(line, {.topic = "billed", .payload = "1"});
    throw std::runtime_error("the handler's own");
  };
  for (int i = 0; i < 3; ++i) EXPECT_THROW(inbox.once(*db, "m-1", fails), std::runtime_error);
  EXPECT_EQ(0, count("effect"));
  EXPECT_EQ(0, count(table("event")));
  EXPECT_EQ(0, count(table("inbox")));
  EXPECT_TRUE(handle(*db, "m-1"));
  EXPECT_EQ(1, count("effect"));
}

TEST_P(InboxSuite, WhatCollidesIsBegunAgainWhole) {
  int attempts = 0;
  EXPECT_TRUE(inbox.once(*db, "m-1", [&](Connection& line) {
    take_effect(line, "m-1");
    if (++attempts < 3) throw Collision("in the way");
  }));
  EXPECT_EQ(3, attempts);
  EXPECT_EQ(1, count("effect"));
}

TEST_P(InboxSuite, EachConsumerAndEachTenantHandlesItOnce) {
  const Inbox other("mailing");
  EXPECT_TRUE(handle(*db, "m-1"));
  EXPECT_TRUE(other.once(*db, "m-1", [](Connection& line) { take_effect(line, "m-1", "mailing"); }));
  const auto nothing = [](Connection&) {};
  for (const char* tenant : {"north", "south"}) {
    EXPECT_TRUE(inbox.once(*db, "m-1", nothing, {.transaction = {.tenant = tenant}})) << tenant;
    EXPECT_FALSE(inbox.once(*db, "m-1", nothing, {.transaction = {.tenant = tenant}})) << tenant;
  }
  EXPECT_FALSE(inbox.once(*db, "m-1", nothing, {.transaction = {.tenant = "default"}})) << "as if none were named";
  EXPECT_EQ(4, count(table("inbox")));
}

TEST_P(InboxSuite, InATransactionOfOnesOwn) {
  Transaction transaction(*db);
  EXPECT_TRUE(inbox.first_time(*db, "m-1"));
  EXPECT_FALSE(inbox.first_time(*db, "m-1")) << "by this very transaction";
  EXPECT_TRUE(inbox.first_time(*db, "m-1", "north"));
  take_effect(*db, "m-1");
  transaction.commit();
  EXPECT_FALSE(handle(*db, "m-1"));
  EXPECT_EQ(Remedy::fix_input, refusal([&] { inbox.first_time(*db, "m-2"); })) << "there is no transaction";
  EXPECT_TRUE(handle(*db, "m-2")) << "nothing was written down";
}

TEST_P(InboxSuite, Row84_OfTwoAtOnceOneRunsAndTheOtherWaitsForItsEnd) {
  for (const bool commits : {true, false}) {
    const std::string message = commits ? "committed" : "rolled back";
    auto first = std::make_unique<Transaction>(*db);
    ASSERT_TRUE(inbox.first_time(*db, message));
    take_effect(*db, message);
    auto second = std::async(std::launch::async, [&] { return handle(*connect(url), message); });
    EXPECT_EQ(std::future_status::timeout, second.wait_for(200ms));
    if (commits) first->commit();
    first.reset();
    EXPECT_EQ(!commits, second.get());
    EXPECT_EQ("1", value("SELECT count(*) FROM effect WHERE message = '" + message + "'"));
  }
}

TEST_P(InboxSuite, NamesAndIdsHaveLimits) {
  const std::string longest(512, 'x');
  EXPECT_TRUE(handle(*db, longest));
  EXPECT_FALSE(handle(*db, longest));
  EXPECT_TRUE(handle(*db, "ä'\"\\%")) << "whatever is in it";
  EXPECT_FALSE(handle(*db, "ä'\"\\%"));
  for (const std::string& wrong : {std::string(), longest + "x", std::string("a\0b", 3), std::string("\xff")})
    EXPECT_EQ(Remedy::fix_input, refusal([&] { handle(*db, wrong); })) << wrong;
  for (const std::string& wrong : {std::string(), std::string(256, 'x'), std::string("\xff")})
    EXPECT_EQ(Remedy::fix_input, refusal([&] { Inbox nobody(wrong); })) << wrong;
  EXPECT_EQ(Remedy::fix_config, refusal([&] { Inbox nobody("billing", "no\"body"); }));
  EXPECT_EQ(Remedy::fix_input, refusal([&] {
              inbox.once(*db, "m", [](Connection&) {}, {.transaction = {.tenant = std::string(256, 'x')}});
            }));
  EXPECT_TRUE(Inbox(std::string(255, 'x')).once(*db, longest, [](Connection&) {}));
}

}  // namespace
}  // namespace waybill
