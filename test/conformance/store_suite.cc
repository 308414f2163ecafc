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
  event.not_before = std::chrono::floor<std::chrono::seconds>(system_clock().now()) + 24h * 365;
  event.expires_at = Time(4'000'000'000s);
  enqueue({event});
  Worker reader = worker();
  const auto chunks = read_all(reader);
  ASSERT_EQ(1U, chunks.size());
  EXPECT_EQ(event.not_before, chunks[0].events[0].not_before);
  EXPECT_EQ(event.expires_at, chunks[0].events[0].expires_at);
}

TEST_P(StoreSuite, AnEventAsksForNoMoreThanItMay) {
  Event persistent = event("a");
  persistent.attempts_max = limits::attempts_max + 1;
  Event distant = event("b");
  distant.not_before = system_clock().now() + limits::schedule_max + 24h;
  for (const Event& refused : {persistent, distant}) {
    try {
      enqueue({refused});
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(Remedy::fix_input, error.remedy()) << error.what();
    }
  }
  distant.not_before = system_clock().now() + limits::schedule_max - 1min;
  enqueue({distant});
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

TEST_P(StoreSuite, Row1_WhatIsNotCommittedIsNotThere) {
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
  reader.membership->beat(std::span(&out, 1));
  EXPECT_TRUE(reader.membership->poll());
}

TEST_P(StoreSuite, ASleeperIsTold) {
  Worker reader = worker();
  Waker waker;
  reader.membership->poll();
  if (reader.membership->sleep() != Membership::Sleep::told)
    GTEST_SKIP() << "this store only polls: nobody is told of news";
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

// It finishes what it has begun, while others take what it gives back.
TEST_P(StoreSuite, Row85_ARelayThatLeavesKeepsItsLeasesAndCountsForNobodysShare) {
  Worker one = worker();
  const std::string out = "out";
  EXPECT_EQ(1, one.membership->beat(std::span(&out, 1)).relays.at(out));
  const Pulse pulse = one.membership->beat(std::span(&out, 1), true);
  EXPECT_EQ(one.leases.size(), pulse.mine.size());
  EXPECT_TRUE(pulse.free.empty());
  const auto relays = store_->inspector()->status().relays;
  ASSERT_EQ(1U, relays.size());
  EXPECT_TRUE(relays[0].alive);
  EXPECT_TRUE(relays[0].destinations.empty());
  if (GetParam().name == "sqlite") return;  // There is one relay at a time.
  const auto other = store_->join({.id = EventId::make().to_string(), .name = "other", .lease = 5s});
  EXPECT_EQ(1, other->beat(std::span(&out, 1)).relays.at(out));
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

TEST_P(StoreSuite, AnEventThatTheRulesDoNotSendIsSkipped) {
  std::vector<EventId> ids;
  for (const char* topic : {"room.opened", "order.paid"}) {
    Event made = event("x");
    made.topic = topic;
    made.aggregate = {"a", "1"};
    made.id = ids.emplace_back(EventId::make());
    enqueue({made});
  }
  Worker reader = worker("out", Start::beginning, {.topic = {"room.*", "order.%", "roo_.*"}, .aggregate_type = {"*"}});
  EXPECT_EQ("pending", store_->inspector()->find(ids[1])->destinations.at(0).state);
  settle_all(reader);
  const auto inspector = store_->inspector();
  EXPECT_EQ("published", inspector->find(ids[0])->destinations.at(0).state);
  const EventAtDestination skipped = inspector->find(ids[1])->destinations.at(0);
  EXPECT_EQ("skipped", skipped.state);
  ASSERT_TRUE(skipped.skipped_by);
  EXPECT_EQ((Match{.topic = {"order.%", "roo_.*", "room.*"}, .aggregate_type = {"*"}}), skipped.skipped_by->match);
  EXPECT_LT(skipped.skipped_by->since, system_clock().now() + 60s);
  EXPECT_GT(skipped.skipped_by->since, system_clock().now() - 60s);
  const EventList list = inspector->list({.states = true});
  ASSERT_EQ(2U, list.states.size());
  EXPECT_EQ("skipped", list.states[0].at(0).state);
  EXPECT_EQ("published", list.states[1].at(0).state);
  EXPECT_EQ(0U, inspector->list({}).states.size()) << "only for those who ask";
  EXPECT_EQ((std::vector<std::string>{"*"}), inspector->status().relays.at(0).rules.at("out").aggregate_type);
}

TEST_P(StoreSuite, AnEventIsSkippedByTheRulesOfTheRelayThatPassedIt) {
  const auto put = [&] {
    Event made = event("x");
    made.id = EventId::make();
    enqueue({made});
    return *made.id;
  };
  const auto serve = [&](const Match& rules) {
    Worker relay = worker("out", Start::beginning, rules);
    settle_all(relay);
    relay.session->release(relay.leases);
    relay.membership->leave();
  };
  const auto state = [&](const EventId& id) { return store_->inspector()->find(id)->destinations.at(0); };
  const EventId first = put();
  serve({.topic = {"other"}});
  const EventId second = put();
  serve({});
  const EventId third = put();
  serve({.tenant = {"nobody"}});
  EXPECT_EQ("skipped", state(first).state);
  EXPECT_EQ(Match{.topic = {"other"}}, state(first).skipped_by->match);
  EXPECT_EQ("published", state(second).state);
  EXPECT_EQ(Match{.tenant = {"nobody"}}, state(third).skipped_by->match);
  EXPECT_GE(state(third).skipped_by->since, state(first).skipped_by->since);

  store_->operate()->rewind({.id = EventId::make()}, "out", {}, false);
  EXPECT_EQ("pending", state(first).state);
  serve({});
  EXPECT_EQ("published", state(first).state) << "at the second time";
  store_->operate()->rewind({.id = EventId::make()}, "out", {}, false);
  serve({.topic = {"other"}});
  EXPECT_EQ("published", state(first).state) << "it has been sent once";
}

TEST_P(StoreSuite, AnEventFromBeforeTheDestinationIsSkipped) {
  Event made = event("x");
  made.id = EventId::make();
  enqueue({made});
  Worker reader = worker("out", Start::now);
  enqueue("y");
  settle_all(reader);
  const EventAtDestination at = store_->inspector()->find(*made.id)->destinations.at(0);
  EXPECT_EQ("skipped", at.state);
  EXPECT_FALSE(at.skipped_by);
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

}  // namespace waybill
