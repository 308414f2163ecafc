#include <thread>

#include "conformance/store_suite.h"

namespace waybill {

// --- Undelivered events

constexpr std::uint64_t k = 77;

TEST_P(StoreSuite, WhatIsPassedUndeliveredIsFoundAgain) {
  Worker first = passed({"a", "b", "c"}, {{.key = k, .blocks = true, .attempts = 1, .wait = 1h, .error = "no"},
                                          {.key = k, .standing = Standing::blocked, .blocks = true}});
  Worker second = handed_over(first);
  EXPECT_TRUE(read_all(second).empty());
  const Opened& opened = found(second);
  ASSERT_EQ(1U, opened.blocked.size());
  EXPECT_EQ(k, opened.blocked[0].key);
  EXPECT_EQ(2, opened.blocked[0].events);
  EXPECT_GT(*opened.blocked[0].wait, 59min);
  const Wanted wanted{.shard = opened.lease.shard, .key = k, .events_max = 10};
  const Fetched fetched = second.session->fetch(std::span(&wanted, 1));
  ASSERT_EQ("ab", names(fetched));
  EXPECT_EQ(1, fetched.items[0].row.attempts);
  EXPECT_EQ("no", fetched.items[0].row.error);
  EXPECT_GT(fetched.items[0].row.wait, 59min);
  EXPECT_EQ(Standing::blocked, fetched.items[1].row.standing);
  EXPECT_EQ(0ms, fetched.items[1].row.wait);
}

TEST_P(StoreSuite, UndeliveredEventsAreFetchedByKeyInOrder) {
  Worker worker =
      passed({"a", "b", "c"}, {{.key = k, .blocks = true}, {.key = k, .blocks = true}, {.key = k, .blocks = true}});
  Worker second = handed_over(worker);
  const std::int32_t shard = found(second).lease.shard;
  const Wanted one{.shard = shard, .key = k, .events_max = 1};
  const Fetched first = second.session->fetch(std::span(&one, 1));
  ASSERT_EQ("a", names(first));
  const Wanted rest{.shard = shard, .key = k, .after = first.items[0].row.seq, .events_max = 10};
  EXPECT_EQ("bc", names(second.session->fetch(std::span(&rest, 1))));
  const Wanted other{.shard = shard, .key = k + 1, .events_max = 10};
  EXPECT_EQ("", names(second.session->fetch(std::span(&other, 1))));
}

TEST_P(StoreSuite, RowsChangeAndEnd) {
  Worker first =
      passed({"a", "b", "c"}, {{.key = k, .blocks = true}, {.key = k, .blocks = true}, {.key = k, .blocks = true}});
  Worker second = handed_over(first);
  const std::int32_t shard = found(second).lease.shard;
  const Wanted all{.shard = shard, .key = k, .events_max = 10};
  const Fetched before = second.session->fetch(std::span(&all, 1));
  ASSERT_EQ("abc", names(before));
  Settlement settlement = change(second, shard);
  settlement.delivered = {before.items[0].row.seq};
  settlement.undelivered = {before.items[1].row, before.items[2].row};
  settlement.undelivered[0].standing = Standing::dead;
  settlement.undelivered[0].blocks = false;
  settlement.undelivered[1].attempts = 3;
  settlement.undelivered[1].sending = Undelivered::Sending::on_trial;
  settlement.undelivered[1].crashes = 2;
  settlement.undelivered[1].blamed = 1;
  settlement.attempts = {
      {.seq = before.items[1].row.seq, .number = 1, .outcome = Outcome::Kind::rejected, .error = "x"}};
  EXPECT_TRUE(second.session->exchange(std::span(&settlement, 1), {}).lost.empty());
  const Fetched after = second.session->fetch(std::span(&all, 1));
  ASSERT_EQ("c", names(after));
  EXPECT_EQ(3, after.items[0].row.attempts);
  EXPECT_EQ(2, after.items[0].row.crashes);
  EXPECT_EQ(1, after.items[0].row.blamed);
  EXPECT_EQ(Undelivered::Sending::on_trial, after.items[0].row.sending);
  const auto inspector = store_->inspector();
  const auto dead = inspector->undelivered({.standings = {Standing::dead}});
  ASSERT_EQ(1U, dead.events.size());
  EXPECT_EQ("\"b\"", dead.events[0].event.payload);
  const auto story = inspector->find(dead.events[0].event.id);
  ASSERT_EQ(1U, story->destinations.size());
  EXPECT_EQ("dead", story->destinations[0].state);
  ASSERT_EQ(1U, story->destinations[0].attempts.size());
  EXPECT_EQ("x", story->destinations[0].attempts[0].error);
}

// Who counts what died until now does not get what dies later.
TEST_P(StoreSuite, ADeadLetterIsAsOldAsItsDeath) {
  Worker first = passed({"a", "b"}, {{.key = k, .blocks = true}});
  Worker second = handed_over(first);
  const std::int32_t shard = found(second).lease.shard;
  const Wanted wanted{.shard = shard, .key = k, .events_max = 1};
  Settlement settlement = change(second, shard);
  settlement.undelivered = {second.session->fetch(std::span(&wanted, 1)).items.at(0).row};
  settlement.undelivered[0].standing = Standing::dead;
  settlement.undelivered[0].blocks = false;
  const auto inspector = store_->inspector();
  const Time came = inspector->undelivered({}).events.at(0).since;
  std::this_thread::sleep_for(20ms);
  second.session->exchange(std::span(&settlement, 1), {});
  EXPECT_GE(inspector->undelivered({}).events.at(0).since, came + 20ms);
}

TEST_P(StoreSuite, AKeyIsBuriedWhole) {
  Worker first =
      passed({"a", "b", "c"}, {{.key = k, .blocks = true}, {.key = k, .blocks = true}, {.key = k + 1, .blocks = true}});
  Worker second = handed_over(first);
  Settlement settlement = change(second, found(second).lease.shard);
  settlement.buried_keys = {k};
  second.session->exchange(std::span(&settlement, 1), {});
  Worker third = handed_over(second);
  ASSERT_EQ(1U, found(third).blocked.size());
  EXPECT_EQ(k + 1, found(third).blocked[0].key);
  EXPECT_EQ(2U, store_->inspector()->undelivered({.standings = {Standing::dead}}).events.size());
}

TEST_P(StoreSuite, EventsWithoutAKeyAreFetchedWhenDue) {
  Worker first = passed({"a", "b"}, {{.standing = Standing::scheduled, .wait = 1h}, {.attempts = 1}});
  Worker second = handed_over(first);
  EXPECT_EQ(0ms, *found(second).next_due);
  const Wanted wanted{.shard = found(second).lease.shard, .events_max = 10};
  const Fetched fetched = second.session->fetch(std::span(&wanted, 1));
  EXPECT_EQ("b", names(fetched));
  EXPECT_GT(fetched.next_due.at(wanted.shard), 59min);
}

TEST_P(StoreSuite, MoreThanWereAskedForAreDueAtOnce) {
  Worker first = passed({"a", "b", "c"}, {{.attempts = 1}, {.attempts = 1}, {.attempts = 1}});
  Worker second = handed_over(first);
  const Wanted wanted{.shard = found(second).lease.shard, .events_max = 2};
  const Fetched fetched = second.session->fetch(std::span(&wanted, 1));
  EXPECT_EQ("ab", names(fetched));
  EXPECT_EQ(0ms, fetched.next_due.at(wanted.shard));
}

TEST_P(StoreSuite, Row73_AnOldTermWritesNoRows) {
  Worker first = passed({"a", "b"}, {{.key = k, .blocks = true}});
  if (first.leases.size() < 2)
    GTEST_SKIP() << "this store lets one relay in at a time: there is no former owner that could write";
  Worker second = handed_over(first);
  Settlement settlement = change(first, found(second).lease.shard);
  settlement.undelivered = {{.seq = 1, .key = k, .standing = Standing::dead}};
  settlement.delivered = {1, 2};
  EXPECT_EQ(1U, first.session->exchange(std::span(&settlement, 1), {}).lost.size());
  EXPECT_TRUE(store_->inspector()->undelivered({.standings = {Standing::dead}}).events.empty());
}

TEST_P(StoreSuite, ABlockedKeySaysWhy) {
  passed({"a", "b"}, {{.key = k, .blocks = true, .attempts = 2, .error = "no such queue"},
                      {.key = k, .standing = Standing::blocked, .blocks = true}});
  const auto keys = store_->inspector()->blocked_keys("out", 10);
  ASSERT_EQ(1U, keys.size());
  EXPECT_EQ("k", keys[0].key);
  EXPECT_EQ("default", keys[0].tenant);
  EXPECT_EQ(2, keys[0].events.value);
  EXPECT_EQ("no such queue", keys[0].error);
  const DestinationStatus status = store_->inspector()->status().destinations.at(0);
  EXPECT_EQ(1U, status.undelivered.count(Standing::blocked));
  EXPECT_EQ(2, status.attempts_most);
}

// --- Operators

TEST_P(StoreSuite, Row81_ADeadLetterIsRedrivenOncePerOperation) {
  Worker first = passed({"a", "b", "c"}, {{.key = k, .standing = Standing::dead, .attempts = 12},
                                          {.key = k, .standing = Standing::dead, .attempts = 12}});
  const auto desk = store_->operate();
  const UndeliveredFilter filter{.destination = "out", .standings = {Standing::dead}};
  EXPECT_EQ(2, desk->count(filter));
  const Operation operation{.id = EventId::make(), .by = "me"};
  EXPECT_EQ(1, desk->redrive(operation, filter, 1));
  EXPECT_EQ(1, desk->redrive(operation, filter, 1));
  EXPECT_EQ(0, desk->redrive(operation, filter, 1));
  Worker second = handed_over(first);
  ASSERT_EQ(1U, found(second).blocked.size());
  EXPECT_EQ(2, found(second).blocked[0].events);
  EXPECT_EQ(0ms, *found(second).blocked[0].wait);
  const Wanted wanted{.shard = found(second).lease.shard, .key = k, .events_max = 10};
  Fetched fetched = second.session->fetch(std::span(&wanted, 1));
  ASSERT_EQ("ab", names(fetched));
  EXPECT_EQ(0, fetched.items[0].row.attempts);
  EXPECT_EQ(1, fetched.items[0].event.redrives);
  // It dies again: the same operation does not touch it, another does; nor does the first when that has.
  Settlement settlement = change(second, wanted.shard);
  settlement.undelivered = {fetched.items[0].row};
  settlement.undelivered[0].standing = Standing::dead;
  settlement.undelivered[0].blocks = false;
  second.session->exchange(std::span(&settlement, 1), {});
  EXPECT_EQ(0, desk->redrive(operation, filter, 10));
  EXPECT_EQ(1, desk->redrive({.id = EventId::make(), .by = "you"}, filter, 10));
  Settlement once_more = change(second, wanted.shard);
  once_more.undelivered = settlement.undelivered;
  second.session->exchange(std::span(&once_more, 1), {});
  EXPECT_EQ(1, desk->count(filter));
  EXPECT_EQ(0, desk->redrive(operation, filter, 10));
  const auto history = desk->history(10);
  ASSERT_EQ(2U, history.size());
  EXPECT_EQ("you", history[0].by);
  EXPECT_EQ("redrive", history[1].kind);
  EXPECT_THROW(desk->dismiss(operation, filter, 10), Error);  // It is another kind.
  EXPECT_EQ(2, history[1].events);
}

TEST_P(StoreSuite, ADeadLetterIsDismissedOrEdited) {
  Worker first =
      passed({"a", "b"}, {{.key = k, .standing = Standing::dead, .blocks = true}, {.key = k, .blocks = true}});
  const auto desk = store_->operate();
  const auto inspector = store_->inspector();
  const auto dead = inspector->undelivered({.destination = "out", .standings = {Standing::dead}});
  ASSERT_EQ(1U, dead.events.size());
  const EventId id = dead.events[0].event.id;
  desk->edit({.id = EventId::make(), .by = "me"}, "out", id, {.payload = "\"z\""});
  desk->edit({.id = EventId::make(), .by = "me"}, "out", id, {.headers = R"({"h":"1"})"});
  const Edit edited = inspector->undelivered({.ids = {id}}).events.at(0).edit;
  EXPECT_EQ("\"z\"", edited.payload);
  EXPECT_EQ(R"({"h":"1"})", edited.headers);
  EXPECT_EQ("\"a\"", inspector->undelivered({.ids = {id}}).events.at(0).event.payload);
  EXPECT_EQ(1, desk->redrive({.id = EventId::make(), .by = "me"}, {.destination = "out", .ids = {id}}, 10));
  Worker second = handed_over(first);
  const Wanted wanted{.shard = found(second).lease.shard, .key = k, .events_max = 10};
  Fetched fetched = second.session->fetch(std::span(&wanted, 1));
  EXPECT_EQ("zb", names(fetched));
  EXPECT_EQ(R"({"h":"1"})", fetched.items.at(0).event.headers);
  EXPECT_THROW(desk->edit({.id = EventId::make()}, "out", id, {.payload = "1"}), Error);
  Settlement settlement = change(second, wanted.shard);
  settlement.undelivered = {fetched.items[0].row};
  settlement.undelivered[0].standing = Standing::held;
  second.session->exchange(std::span(&settlement, 1), {});
  EXPECT_EQ(1, desk->dismiss({.id = EventId::make()}, {.destination = "out"}, 10));
  Worker third = handed_over(second);
  EXPECT_EQ(1, found(third).blocked.at(0).events);
  EXPECT_EQ("dismissed", inspector->find(id)->destinations.at(0).state);
}

TEST_P(StoreSuite, LargePayloadsAreListedIfAskedFor) {
  const std::string name(300'000, 'x');
  const std::string large = "\"" + name + "\"";
  const Worker first = passed({name}, {{.key = k, .standing = Standing::dead}});
  const auto inspector = store_->inspector();
  EXPECT_EQ(large, inspector->list({.payloads = true}).events.at(0).payload);
  auto list = inspector->undelivered({.payloads = true});
  EXPECT_EQ(large, list.events.at(0).event.payload);
  EXPECT_FALSE(list.events.at(0).event.payload_deferred);
  const EventId id = list.events.at(0).event.id;
  EXPECT_EQ(large, inspector->find(id)->event.payload);
  const std::string larger(400'000, '7');
  store_->operate()->edit({.id = EventId::make()}, "out", id, {.payload = larger});
  list = inspector->undelivered({.payloads = true});
  EXPECT_EQ(large, list.events.at(0).event.payload);
  EXPECT_EQ(larger, list.events.at(0).edit.payload);
}

TEST_P(StoreSuite, TroublesAreShownWithTheRelayThatHasThem) {
  const Worker relay = worker();
  const auto troubles = [&] { return store_->inspector()->status().relays.at(0).troubles; };
  EXPECT_TRUE(troubles().empty());
  const Trouble trouble{.destination = "out", .text = "away: \"no\nroute\" \\ é"};
  relay.membership->report(std::span(&trouble, 1));
  relay.membership->beat(std::vector<std::string>{"out"});
  ASSERT_EQ(1U, troubles().size());
  EXPECT_EQ(trouble, troubles()[0]);
  relay.membership->beat(std::vector<std::string>{"out"});
  EXPECT_EQ(1U, troubles().size());
  relay.membership->report({});
  relay.membership->beat(std::vector<std::string>{"out"});
  EXPECT_TRUE(troubles().empty());
}

TEST_P(StoreSuite, RelaysNoticeWhatAPersonChanges) {
  Worker worker = passed({"a", "b"}, {{.key = k, .standing = Standing::dead}});
  const std::string out = "out";
  const auto before = worker.membership->beat(std::span(&out, 1));
  EXPECT_TRUE(before.paused.empty());
  const auto desk = store_->operate();
  desk->redrive({.id = EventId::make()}, {.destination = out}, 10);
  const auto after = worker.membership->beat(std::span(&out, 1));
  EXPECT_GT(after.changes.at(out), before.changes.at(out));
  desk->pause({.id = EventId::make()}, out, true);
  EXPECT_TRUE(worker.membership->beat(std::span(&out, 1)).paused.contains(out));
  desk->pause({.id = EventId::make()}, out, false);
  EXPECT_TRUE(worker.membership->beat(std::span(&out, 1)).paused.empty());
}

}  // namespace waybill
