#include "conformance/store_suite.h"

namespace waybill {
namespace {

constexpr std::uint64_t k = 77;

}  // namespace

// As many times as it dies, an operation touches it once; also when another has been there in between.
TEST_P(StoreSuite, AnOlderOperationTouchesNothingAgain) {
  Worker first = passed({"a", "b"}, {{.key = k, .standing = Standing::dead}});
  const auto desk = store_->operate();
  const UndeliveredFilter filter{.destination = "out"};
  const Operation older{.id = EventId::make()};
  const Operation younger{.id = EventId::make()};
  Worker relay = handed_over(first);
  std::int32_t shard = 0;
  for (const Operation& operation : {older, younger}) {
    EXPECT_EQ(1, desk->redrive(operation, filter, 10));
    relay = handed_over(relay);
    shard = found(relay).lease.shard;
    const Wanted wanted{.shard = shard, .key = k, .events_max = 10};
    Settlement settlement = change(relay, shard);
    settlement.undelivered = {relay.session->fetch(std::span(&wanted, 1)).items.at(0).row};
    settlement.undelivered[0].standing = Standing::dead;
    settlement.undelivered[0].blocks = false;
    relay.session->exchange(std::span(&settlement, 1), {});
  }
  EXPECT_EQ(0, desk->redrive(older, filter, 10));
  EXPECT_EQ(0, desk->redrive(younger, filter, 10));
  EXPECT_EQ(1, desk->dismiss({.id = EventId::make()}, filter, 10));
}

// An expired event goes only if somebody asks for it, and then although it has expired.
TEST_P(StoreSuite, AnExpiredEventIsRedrivenByItsNameOnly) {
  Worker first = passed({"a", "b", "c"}, {{.key = k, .standing = Standing::expired},
                                          {.key = k, .standing = Standing::expired_unknown, .in_doubt = true},
                                          {.key = k, .standing = Standing::dead, .in_doubt = true}});
  const auto desk = store_->operate();
  EXPECT_EQ(1, desk->redrive({.id = EventId::make()}, {.destination = "out"}, 10)) << "the dead one";
  const auto inspector = store_->inspector();
  const EventId id = inspector->undelivered({.standings = {Standing::expired}}).events.at(0).event.id;
  EXPECT_EQ(1, desk->redrive({.id = EventId::make()}, {.destination = "out", .ids = {id}}, 10));
  EXPECT_EQ(1, desk->redrive({.id = EventId::make()},
                             {.destination = "out", .standings = {Standing::expired, Standing::expired_unknown}}, 10));
  Worker second = handed_over(first);
  const Wanted wanted{.shard = found(second).lease.shard, .key = k, .events_max = 10};
  const Fetched fetched = second.session->fetch(std::span(&wanted, 1));
  ASSERT_EQ("abc", names(fetched));
  const auto& items = fetched.items;
  EXPECT_TRUE(items[0].row.ignore_expiry && items[1].row.ignore_expiry && !items[2].row.ignore_expiry);
  EXPECT_TRUE(!items[0].row.in_doubt && items[1].row.in_doubt && items[2].row.in_doubt) << "a redrive settles no doubt";
}

// What was written before a relay went without a word may have been sent by it.
TEST_P(StoreSuite, AnUncleanEndLeavesDoubt) {
  enqueue("a");
  Worker first = worker();
  for (const Opened& opened : first.opened) EXPECT_FALSE(opened.in_doubt_until);
  const Time written = read_all(first).at(0).events.at(0).created_at;
  EXPECT_GE(first.session->now(), written);
  Worker second = handed_over(first);
  for (const Opened& opened : second.opened) EXPECT_FALSE(opened.in_doubt_until) << "it was given back";
  const auto broken = second.session->open(second.leases, Start::beginning, true);
  ASSERT_EQ(second.leases.size(), broken.size());
  for (const Opened& opened : broken) EXPECT_GE(opened.in_doubt_until.value_or(Time{}), written) << "its own end";
  second.leases.clear();
  for (const Opened& opened : broken) second.leases.push_back(opened.lease);
  second.membership->leave();
  const Time left = second.session->now();
  Worker third = worker();
  for (const Opened& opened : third.opened) EXPECT_GE(opened.in_doubt_until.value_or(Time{}) + 1s, left);
}

// Everything goes again as if for the first time: what stood in its way is over, whatever it was.
TEST_P(StoreSuite, ARewindSendsEverythingAgain) {
  Worker first = passed({"a", "b", "c", "d"}, {{.key = k, .standing = Standing::dead, .attempts = 12},
                                               {.key = k, .standing = Standing::held, .blocks = true},
                                               {.key = k, .standing = Standing::blocked, .blocks = true}});
  const auto desk = store_->operate();
  const auto inspector = store_->inspector();
  const EventId dead = inspector->undelivered({.standings = {Standing::dead}}).events.at(0).event.id;
  desk->edit({.id = EventId::make()}, "out", dead, {.payload = "\"z\""});
  EXPECT_EQ(4, desk->rewind({.id = EventId::make()}, "out", {}, true).value);
  EXPECT_EQ(3U, inspector->undelivered({}).events.size()) << "that was dry";
  const Operation operation{.id = EventId::make()};
  EXPECT_EQ(4, desk->rewind(operation, "out", {}, false).value);
  EXPECT_EQ(4, desk->rewind(operation, "out", {}, false).value) << "the same, once";
  EXPECT_EQ(0U, inspector->undelivered({}).events.size());
  EXPECT_EQ("pending", inspector->find(dead)->destinations.at(0).state);
  EXPECT_EQ(0, desk->rewind({.id = EventId::make()}, "out", {}, false).value) << "it is there";
  EXPECT_EQ(0, desk->rewind({.id = EventId::make()}, "out", {.time = system_clock().now() + 1h}, false).value)
      << "it goes back, never on";

  Settlement late = change(first, first.shards.front());
  EXPECT_EQ(1U, first.session->exchange(std::span(&late, 1), {}).lost.size()) << "it is fenced";
  Worker second = handed_over(first);
  for (const Opened& opened : second.opened) EXPECT_TRUE(opened.blocked.empty());
  const auto chunks = read_all(second);
  EXPECT_EQ("abcd", names(chunks));
  for (const Chunk& chunk : chunks) {
    const Settlement all = settlement(second, chunk, chunk.events.size() - 1);
    EXPECT_TRUE(second.session->exchange(std::span(&all, 1), {}).lost.empty());
  }
  EXPECT_EQ("published", inspector->find(dead)->destinations.at(0).state);
  EXPECT_THROW(desk->rewind({.id = EventId::make()}, "nowhere", {}, false), Error);
  EXPECT_THROW(desk->rewind({.id = EventId::make()}, "out", {.event = EventId::make()}, false), Error);
}

TEST_P(StoreSuite, AForgottenDestinationBeginsAnew) {
  Worker first = passed({"a", "b"}, {{.key = k, .blocks = true}});
  enqueue("c");
  const auto desk = store_->operate();
  EXPECT_THROW(desk->forget({.id = EventId::make()}, "out", false), Error) << "a relay serves it";
  first.session->release(first.leases);
  first.membership->leave();
  first = {};
  EXPECT_EQ(2, desk->forget({.id = EventId::make()}, "out", true).value);
  const Operation operation{.id = EventId::make()};
  EXPECT_EQ(2, desk->forget(operation, "out", false).value);
  EXPECT_EQ(2, desk->forget(operation, "out", false).value) << "the same, once";
  EXPECT_TRUE(store_->inspector()->status().destinations.empty());
  EXPECT_TRUE(store_->inspector()->undelivered({}).events.empty());
  Worker second = worker();
  EXPECT_EQ("abc", names(read_all(second)));
}

}  // namespace waybill
