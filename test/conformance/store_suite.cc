#include "conformance/store_suite.h"

namespace waybill {

using testing::HasSubstr;

TEST_P(StoreSuite, AnEventComesBackByteForByte) {
  Event event;
  event.topic = "order.paid";
  event.type = "OrderPaid";
  event.aggregate = {"order", "o/7 ü"};
  event.version = 1LL << 40;
  event.key = "key \\ \" ' %";
  event.payload = "{ \"a\" : 1.50, \"a\":\"\\\\ \\u00e9 \xc3\xa9\", \"b\" : [ ] }";
  event.content_type = "application/vnd.x+json";
  event.metadata = R"({"actor": "nurse"})";
  event.headers = {{"h1", "v \"1\""}, {"h2", "ü"}};
  event.routing_key = "r.k";
  event.schema_id = "s";
  event.schema_version = 3;
  event.occurred_at = Time(1'700'000'000'123'456us);
  event.attempts_max = 4;
  event.dedup_key = "o-7/paid";
  event.tenant = "north";
  event.id = EventId::make();
  Event bytes;
  bytes.topic = "raw";
  bytes.payload_bytes = std::string("\0\\x41\xff'", 7);
  enqueue({event, bytes});

  Worker reader = worker();
  const auto chunks = read_all(reader);
  std::map<std::string, EventView> read;
  for (const Chunk& chunk : chunks)
    for (const EventView& view : chunk.events) read[std::string(view.topic)] = view;
  ASSERT_EQ(2U, read.size());
  const EventView& one = read.at("order.paid");
  EXPECT_EQ(*event.id, one.id);
  EXPECT_EQ("north", one.tenant);
  EXPECT_EQ("OrderPaid", one.type);
  EXPECT_EQ("order", one.aggregate_type);
  EXPECT_EQ("o/7 ü", one.aggregate_id);
  EXPECT_EQ(1LL << 40, one.version);
  EXPECT_EQ(event.key, one.key);
  EXPECT_EQ(*event.payload, one.payload);
  EXPECT_TRUE(one.payload_is_json);
  EXPECT_EQ("application/vnd.x+json", one.content_type);
  EXPECT_EQ(event.metadata, one.metadata);
  EXPECT_EQ(headers_json(event.headers), one.headers);
  EXPECT_EQ("r.k", one.routing_key);
  EXPECT_EQ("s", one.schema_id);
  EXPECT_EQ(3, one.schema_version);
  EXPECT_EQ(*event.occurred_at, one.occurred_at);
  EXPECT_EQ(4, one.attempts_max);
  EXPECT_EQ("o-7/paid", one.dedup_key);
  EXPECT_LT(system_clock().now() - one.created_at, 60s);
  EXPECT_EQ(std::nullopt, one.not_before);

  const EventView& raw = read.at("raw");
  EXPECT_EQ(*bytes.payload_bytes, raw.payload);
  EXPECT_FALSE(raw.payload_is_json);
  EXPECT_EQ("application/octet-stream", raw.content_type);
  EXPECT_EQ("default", raw.tenant);
  EXPECT_EQ("raw", raw.type);
  EXPECT_EQ("", raw.key);
  EXPECT_EQ(std::nullopt, raw.version);
  EXPECT_EQ(raw.created_at, raw.occurred_at);
}

TEST_P(StoreSuite, TimesOfSchedulingComeBack) {
  Event event = this->event("a");
  event.not_before = Time(1'800'000'000s);
  event.expires_at = Time(1'900'000'000s);
  enqueue({event});
  Worker reader = worker();
  const auto chunks = read_all(reader);
  ASSERT_EQ(1U, chunks.size());
  EXPECT_EQ(event.not_before, chunks[0].events[0].not_before);
  EXPECT_EQ(event.expires_at, chunks[0].events[0].expires_at);
}

TEST_P(StoreSuite, EventsOfAKeyComeInOrderInChunksOfAnySize) {
  std::string expected;
  for (char name = 'a'; name <= 'z'; ++name) {
    enqueue(std::string(1, name));
    expected += name;
  }
  for (const int size : {1, 3, 7, 100}) {
    Worker reader = worker("out" + std::to_string(size));
    EXPECT_EQ(expected, names(read_all(reader, size))) << size;
    reader.membership->leave();
  }
}

TEST_P(StoreSuite, ManyInOneTransactionKeepTheirOrder) {
  std::vector<Event> events;
  std::string expected;
  for (int i = 0; i < 2'500; ++i) {
    events.push_back(event(std::to_string(i % 10)));
    expected += std::to_string(i % 10);
  }
  enqueue(events);
  Worker reader = worker();
  EXPECT_EQ(expected, names(read_all(reader, 1000)));
}

TEST_P(StoreSuite, WhatIsNotCommittedIsNotThere) {
  {
    const auto writer = store_->writer();
    const Event lost = event("x");
    writer->enqueue(std::span(&lost, 1));
  }
  enqueue("a");
  Worker reader = worker();
  EXPECT_EQ("a", names(read_all(reader)));
}

TEST_P(StoreSuite, GoesOnWhereItWasSettled) {
  for (const char* name : {"a", "b", "c", "d"}) enqueue(name);
  {
    Worker first = worker();
    const auto chunks = read_all(first, 3);
    ASSERT_EQ("abcd", names(chunks));
    const Settlement upto_b = settlement(first, chunks[0], 1);
    EXPECT_TRUE(first.session->exchange(std::span(&upto_b, 1), {}).lost.empty());
    first.session->release(first.leases);
    first.membership->leave();
  }
  Worker second = worker();
  const auto rest = read_all(second);
  EXPECT_EQ("cd", names(rest));
  const Settlement all = settlement(second, rest.back(), rest.back().events.size() - 1);
  second.session->exchange(std::span(&all, 1), {});
  second.session->release(second.leases);
  second.membership->leave();
  enqueue("e");
  Worker third = worker();
  EXPECT_EQ("e", names(read_all(third)));
}

TEST_P(StoreSuite, SettlingAndReadingGoTogether) {
  enqueue("a");
  Worker reader = worker();
  const auto first = read_all(reader);
  enqueue("b");
  const Settlement a = settlement(reader, first[0], 0);
  Reading reading = reader.session->exchange(std::span(&a, 1), {reader.shards, 10, 1 << 20});
  std::vector<Chunk> chunks;
  for (Chunk& chunk : reading.chunks)
    if (!chunk.events.empty()) chunks.push_back(std::move(chunk));
  EXPECT_EQ("b", names(chunks));
}

TEST_P(StoreSuite, ADestinationStartsAtTheBeginningOrNow) {
  enqueue("a");
  Worker late = worker("late", Start::now);
  EXPECT_EQ("", names(read_all(late)));
  enqueue("b");
  EXPECT_EQ("b", names(read_all(late)));
  late.membership->leave();
  Worker early = worker("early", Start::beginning);
  EXPECT_EQ("ab", names(read_all(early)));
}

TEST_P(StoreSuite, AStartAtNowIsRemembered) {
  enqueue("a");
  {
    Worker late = worker("late", Start::now);
    late.session->release(late.leases);
    late.membership->leave();
  }
  enqueue("b");
  Worker again = worker("late", Start::now);
  EXPECT_EQ("b", names(read_all(again)));
}

TEST_P(StoreSuite, DestinationsDoNotShareProgress) {
  enqueue("a");
  Worker one = worker("one");
  const auto chunks = read_all(one);
  const Settlement all = settlement(one, chunks[0], 0);
  one.session->exchange(std::span(&all, 1), {});
  one.membership->leave();
  Worker other = worker("other");
  EXPECT_EQ("a", names(read_all(other)));
}

TEST_P(StoreSuite, ReadsWithinTheLimits) {
  for (int i = 0; i < 20; ++i) enqueue(std::string(100'000, 'x'));
  Worker reader = worker();
  int events = 0;
  while (true) {
    const Reading reading = reader.session->exchange({}, {reader.shards, 5, 250'000});
    std::size_t bytes = 0;
    bool more = false;
    for (const Chunk& chunk : reading.chunks) {
      EXPECT_LE(chunk.events.size(), 5U);
      bytes += chunk.bytes;
      events += static_cast<int>(chunk.events.size());
      more = more || !chunk.events.empty() || !chunk.ends_window;
    }
    EXPECT_LE(bytes, 400'000U);
    if (!more) break;
  }
  EXPECT_EQ(20, events);
}

TEST_P(StoreSuite, ALargePayloadCanBeLoaded) {
  Event large = event(std::string(limits::payload_bytes_max - 2, 'x'));
  enqueue({large});
  Worker reader = worker();
  auto chunks = read_all(reader);
  ASSERT_EQ(1U, chunks.size());
  EventView& view = chunks[0].events.at(0);
  std::shared_ptr<const void> memory;
  if (view.payload_deferred) memory = reader.session->load(view);
  EXPECT_FALSE(view.payload_deferred);
  EXPECT_EQ(*large.payload, view.payload);
}

TEST_P(StoreSuite, ASecondEventOfADedupKeyIsNotWritten) {
  Event first = event("a");
  first.dedup_key = "once";
  Event second = event("b");
  second.dedup_key = "once";
  Event stranger = event("c");
  stranger.dedup_key = "once";
  stranger.tenant = "other";
  const auto writer = store_->writer();
  const auto ids = writer->enqueue(std::vector{first, second, stranger});
  writer->commit();
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_NE(ids[0], ids[2]);
  const auto later = store_->writer();
  EXPECT_EQ(ids[0], later->enqueue(std::span(&second, 1)).at(0));
  later->commit();
  Worker reader = worker();
  std::multiset<std::string> read;
  for (const Chunk& chunk : read_all(reader))
    for (const EventView& view : chunk.events) read.insert(std::string(view.payload));
  EXPECT_EQ((std::multiset<std::string>{"\"a\"", "\"c\""}), read);
}

TEST_P(StoreSuite, ABrokenEventWritesNothing) {
  const auto writer = store_->writer();
  Event broken = event("b");
  broken.payload = "{";
  EXPECT_THROW(writer->enqueue(std::vector{event("a"), broken}), Error);
  writer->commit();
  Worker reader = worker();
  EXPECT_EQ("", names(read_all(reader)));
}

TEST_P(StoreSuite, NewsAreNews) {
  Worker reader = worker();
  const std::string out = "out";
  reader.membership->beat(std::span(&out, 1));
  EXPECT_FALSE(reader.membership->poll());
  enqueue("a");
  EXPECT_TRUE(reader.membership->poll());
  EXPECT_FALSE(reader.membership->poll());
  enqueue("b");
  EXPECT_TRUE(reader.membership->beat(std::span(&out, 1)).news);
}

TEST_P(StoreSuite, ASleeperIsTold) {
  Worker reader = worker();
  Waker waker;
  reader.membership->poll();
  if (!reader.membership->sleep()) GTEST_SKIP() << "this store only polls";
  reader.membership->poll();
  reader.membership->wait(waker, std::chrono::steady_clock::now());
  enqueue("a");
  EXPECT_EQ(Membership::Told::news, reader.membership->wait(waker, std::chrono::steady_clock::now() + 5s));
  reader.membership->rise();
}

TEST_P(StoreSuite, AReleasedLeaseIsFreeAtOnce) {
  const RelayIdentity relay{.id = EventId::make().to_string(), .name = "one", .lease = 5s};
  Worker one = worker();
  one.session->release(one.leases);
  const std::string out = "out";
  const Pulse pulse = one.membership->beat(std::span(&out, 1));
  EXPECT_TRUE(pulse.mine.empty());
  EXPECT_EQ(one.leases.size(), pulse.free.size());
  EXPECT_EQ(one.leases.size(), one.membership->take(pulse.free).size());
}

TEST_P(StoreSuite, AFollowerResumesAtEveryPlace) {
  for (const char* name : {"a", "b", "c", "d", "e"}) enqueue(name);
  const auto follower = store_->follow();
  const auto all = follower->read("", 100);
  ASSERT_EQ(5U, all.items.size());
  for (std::size_t i = 0; i < all.items.size(); ++i) {
    const auto rest = follower->read(all.items[i].place, 100);
    std::string seen;
    for (const auto& item : rest.items) seen += item.event.payload.substr(1, 1);
    EXPECT_THAT(seen, testing::EndsWith(std::string("abcde").substr(i + 1)));
  }
  const auto now = follower->read("now", 100);
  EXPECT_TRUE(now.items.empty());
  enqueue("f");
  const auto news = follower->read(now.place, 100);
  ASSERT_EQ(1U, news.items.size());
  EXPECT_EQ("\"f\"", news.items[0].event.payload);
  EXPECT_TRUE(follower->read(news.place, 100).items.empty());
}

TEST_P(StoreSuite, AFollowerReadsInPages) {
  for (int i = 0; i < 25; ++i) enqueue(std::to_string(i % 10), std::to_string(i));
  const auto follower = store_->follow();
  std::multiset<std::string> seen;
  std::string place;
  while (true) {
    const auto page = follower->read(place, 4);
    EXPECT_LE(page.items.size(), 4U);
    for (const auto& item : page.items) seen.insert(item.event.id.to_string());
    place = page.place;
    if (!page.more && page.items.empty()) break;
  }
  EXPECT_EQ(25U, seen.size());
  EXPECT_EQ(25U, std::set<std::string>(seen.begin(), seen.end()).size());
}

TEST_P(StoreSuite, AFollowerRefusesWhatIsNoPlace) {
  const auto follower = store_->follow();
  for (const char* place : {"x", "-1", "99999999999999999999", "1;2", "\xff"})
    EXPECT_THROW(follower->read(place, 1), Error);
}

TEST_P(StoreSuite, StatusCountsWhatIsPending) {
  for (const char* name : {"a", "b", "c"}) enqueue(name);
  Worker reader = worker();
  const auto chunks = read_all(reader);
  auto status = store_->inspector()->status();
  ASSERT_EQ(1U, status.destinations.size());
  EXPECT_EQ("out", status.destinations[0].name);
  EXPECT_EQ(3, status.destinations[0].pending.value);
  EXPECT_TRUE(status.destinations[0].pending.exact);
  EXPECT_TRUE(status.destinations[0].oldest_pending);
  EXPECT_EQ(status.destinations[0].shards, status.destinations[0].shards_owned);
  EXPECT_EQ(3, status.events.value);
  ASSERT_EQ(1U, status.relays.size());
  EXPECT_TRUE(status.relays[0].alive);
  const Settlement two = settlement(reader, chunks[0], 1);
  reader.session->exchange(std::span(&two, 1), {});
  status = store_->inspector()->status();
  EXPECT_EQ(1, status.destinations[0].pending.value);
  EXPECT_TRUE(status.destinations[0].last_settled);
}

TEST_P(StoreSuite, AnEventTellsItsStory) {
  enqueue("a");
  enqueue("b");
  Worker reader = worker();
  const auto chunks = read_all(reader);
  const Settlement one = settlement(reader, chunks[0], 0);
  reader.session->exchange(std::span(&one, 1), {});
  const auto a = store_->inspector()->find(chunks[0].events[0].id);
  ASSERT_TRUE(a);
  EXPECT_EQ("\"a\"", a->event.payload);
  ASSERT_EQ(1U, a->destinations.size());
  EXPECT_EQ("published", a->destinations[0].state);
  EXPECT_TRUE(a->destinations[0].settled_at);
  const auto& last = chunks.back().events.back();
  const auto b = store_->inspector()->find(last.id);
  ASSERT_TRUE(b);
  EXPECT_EQ("pending", b->destinations.at(0).state);
  EXPECT_FALSE(store_->inspector()->find(EventId::make()));
}

TEST_P(StoreSuite, ListsNewestFirstAndFilters) {
  for (const char* name : {"a", "b", "c"}) enqueue(name, name);
  const auto inspector = store_->inspector();
  const auto listed = [&](const EventFilter& filter) {
    std::string all;
    const EventList list = inspector->list(filter);
    for (const EventView& view : list.events) all += view.payload.substr(1, 1);
    return all;
  };
  EXPECT_EQ("cba", listed({}));
  EXPECT_EQ("cb", listed({.limit = 2}));
  EXPECT_EQ("b", listed({.key = "b"}));
  EXPECT_EQ("", listed({.topic = "x*"}));
  EXPECT_EQ("cba", listed({.topic = "*"}));
  EXPECT_EQ("cba", listed({.since = system_clock().now() - 60s}));
  EXPECT_EQ("", listed({.until = system_clock().now() - 60s}));
  const auto all = inspector->list({});
  EXPECT_EQ("a", listed({.before_seq = all.events[1].seq}));
}

TEST_P(StoreSuite, MigratingTwiceIsFine) {
  EXPECT_TRUE(store_->schema()->migrate().empty());
  const SchemaState state = store_->schema()->state();
  EXPECT_EQ(state.newest_known, state.version);
}

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
  EXPECT_EQ(Standing::blocked, fetched.items[1].row.standing);
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
  settlement.undelivered[1].sending = Undelivered::Sending::alone;
  settlement.undelivered[1].crashes = 1;
  settlement.attempts = {
      {.seq = before.items[1].row.seq, .number = 1, .outcome = Outcome::Kind::rejected, .error = "x"}};
  EXPECT_TRUE(second.session->exchange(std::span(&settlement, 1), {}).lost.empty());
  const Fetched after = second.session->fetch(std::span(&all, 1));
  ASSERT_EQ("c", names(after));
  EXPECT_EQ(3, after.items[0].row.attempts);
  EXPECT_EQ(1, after.items[0].row.crashes);
  EXPECT_EQ(Undelivered::Sending::alone, after.items[0].row.sending);
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

TEST_P(StoreSuite, AnOldTermWritesNoRows) {
  Worker first = passed({"a", "b"}, {{.key = k, .blocks = true}});
  if (first.leases.size() < 2) GTEST_SKIP() << "one relay at a time by other means";
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
  EXPECT_EQ(1U, store_->inspector()->status().destinations.at(0).undelivered.count(Standing::blocked));
}

// --- Operators

TEST_P(StoreSuite, ADeadLetterIsRedrivenOncePerOperation) {
  Worker first = passed({"a", "b", "c"}, {{.key = k, .standing = Standing::dead, .attempts = 12},
                                          {.key = k, .standing = Standing::dead, .attempts = 12}});
  const auto desk = store_->operate();
  const UndeliveredFilter filter{.destination = "out", .standings = {Standing::dead}};
  EXPECT_EQ(2, desk->count(filter));
  const Operation operation{.id = EventId::make(), .by = "me"};
  EXPECT_EQ(1, desk->redrive(operation, filter, 0, 1));
  EXPECT_EQ(1, desk->redrive(operation, filter, 0, 1));
  EXPECT_EQ(0, desk->redrive(operation, filter, 0, 1));
  Worker second = handed_over(first);
  ASSERT_EQ(1U, found(second).blocked.size());
  EXPECT_EQ(2, found(second).blocked[0].events);
  EXPECT_EQ(0ms, *found(second).blocked[0].wait);
  const Wanted wanted{.shard = found(second).lease.shard, .key = k, .events_max = 10};
  Fetched fetched = second.session->fetch(std::span(&wanted, 1));
  ASSERT_EQ("ab", names(fetched));
  EXPECT_EQ(0, fetched.items[0].row.attempts);
  EXPECT_EQ(1, fetched.items[0].event.redrives);
  // It dies again: the same operation does not touch it, another does.
  Settlement settlement = change(second, wanted.shard);
  settlement.undelivered = {fetched.items[0].row};
  settlement.undelivered[0].standing = Standing::dead;
  settlement.undelivered[0].blocks = false;
  second.session->exchange(std::span(&settlement, 1), {});
  EXPECT_EQ(0, desk->redrive(operation, filter, 0, 10));
  EXPECT_EQ(1, desk->redrive({.id = EventId::make(), .by = "you"}, filter, 0, 10));
  const auto history = desk->history(10);
  ASSERT_EQ(2U, history.size());
  EXPECT_EQ("you", history[0].by);
  EXPECT_EQ("redrive", history[1].kind);
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
  EXPECT_TRUE(inspector->undelivered({.ids = {id}}).events.at(0).edited);
  EXPECT_EQ("\"a\"", inspector->undelivered({.ids = {id}}).events.at(0).event.payload);
  EXPECT_EQ(1, desk->redrive({.id = EventId::make(), .by = "me"}, {.destination = "out", .ids = {id}}, 0, 10));
  Worker second = handed_over(first);
  const Wanted wanted{.shard = found(second).lease.shard, .key = k, .events_max = 10};
  Fetched fetched = second.session->fetch(std::span(&wanted, 1));
  EXPECT_EQ("zb", names(fetched));
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

TEST_P(StoreSuite, RelaysNoticeWhatAPersonChanges) {
  Worker worker = passed({"a", "b"}, {{.key = k, .standing = Standing::dead}});
  const std::string out = "out";
  const auto before = worker.membership->beat(std::span(&out, 1));
  EXPECT_TRUE(before.paused.empty());
  const auto desk = store_->operate();
  desk->redrive({.id = EventId::make()}, {.destination = out}, 0, 10);
  const auto after = worker.membership->beat(std::span(&out, 1));
  EXPECT_GT(after.changes.at(out), before.changes.at(out));
  desk->pause({.id = EventId::make()}, out, true);
  EXPECT_TRUE(worker.membership->beat(std::span(&out, 1)).paused.contains(out));
  desk->pause({.id = EventId::make()}, out, false);
  EXPECT_TRUE(worker.membership->beat(std::span(&out, 1)).paused.empty());
}

}  // namespace waybill
