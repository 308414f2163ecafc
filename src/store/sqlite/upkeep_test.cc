// What is SQLite's own about cleaning, copies and operators; what every store does is in test/conformance/.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "waybill/error.h"
#include "waybill/sqlite.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class UpkeepTest : public testing::Test {
 protected:
  // A relay with one destination.
  struct Worker {
    std::unique_ptr<Membership> membership;
    std::unique_ptr<Session> session;
    std::vector<Opened> opened;
    std::string destination;

    Lease lease() const { return opened.at(0).lease; }
    std::vector<Chunk> read() const {
      const Reading reading = session->exchange({}, {.shards = {0}, .events_max = 10'000, .bytes_max = 1U << 30U});
      return reading.chunks;
    }
    // Reads everything and settles it, the first events with these rows. False: it has lost the lease.
    bool settle(const std::vector<Undelivered>& rows = {}) const {
      const auto chunks = read();
      if (chunks.empty()) return true;
      const auto& events = chunks[0].events;
      Settlement all{.term = lease().term,
                     .window = chunks[0].window,
                     .seq = events.back().seq,
                     .window_done = true,
                     .count = std::ssize(events),
                     .undelivered = rows};
      for (std::size_t i = 0; i < rows.size(); ++i) all.undelivered[i].seq = events[i].seq;
      return session->exchange(std::span(&all, 1), {}).lost.empty();
    }
    Pulse beat() const { return membership->beat(std::span(&destination, 1)); }
    void leave() const {
      session->release(std::vector{lease()});
      membership->leave();
    }
  };

  UpkeepTest() {
    std::filesystem::remove_all(root);
    store = fresh("one");
  }
  ~UpkeepTest() override {
    store.reset();
    std::filesystem::remove_all(root);
  }

  std::string path(const std::string& name) const { return root + "/" + name + "/app.db"; }
  std::unique_ptr<Store> open(const std::string& name) const { return sqlite_store({.path = path(name)}); }
  std::unique_ptr<Store> fresh(const std::string& name) const {
    std::filesystem::create_directories(root + "/" + name);
    auto made = open(name);
    made->schema()->migrate();
    return made;
  }
  // Everything that is in the folder, as a person would copy it.
  void copy(const std::string& from, const std::string& to) const {
    std::filesystem::copy(root + "/" + from, root + "/" + to);
  }

  static std::vector<EventId> enqueue(Store& into, int count, const std::string& dedup_key = "") {
    std::vector<Event> events(static_cast<std::size_t>(count));
    for (Event& event : events) {
      event.topic = "t";
      event.key = "k";
      event.payload = "1";
      event.dedup_key = dedup_key;
    }
    const auto writer = into.writer();
    auto ids = writer->enqueue(events);
    writer->commit();
    return ids;
  }
  std::vector<EventId> enqueue(int count) const { return enqueue(*store, count); }

  static Worker worker(Store& of, const std::string& destination = "out", Start start = Start::beginning) {
    const RelayIdentity relay{.id = EventId::make().to_string(), .name = "test"};
    Worker made{.membership = of.join(relay), .session = {}, .opened = {}, .destination = destination};
    made.session = of.connect(relay, destination);
    made.opened = made.session->open(made.membership->take(made.beat().free), start, false);
    return made;
  }
  Worker worker(const std::string& destination = "out") const { return worker(*store, destination); }

  void settle_all(const std::string& destination = "out", const std::vector<Undelivered>& rows = {}) const {
    const Worker relay = worker(destination);
    relay.settle(rows);
    relay.leave();
  }

  // As if everything were old.
  static CleanOptions everything() {
    return {.events_older_than = -10s, .dead_older_than = -10s, .dedup_older_than = -10s};
  }
  Cleaned clean(const CleanOptions& options = everything()) const {
    Cleaned all;
    const auto upkeep = store->upkeep();
    do {
      const Cleaned some = upkeep->clean(options);
      all.events.value += some.events.value;
      all.dead.value += some.dead.value;
      all.dedup.value += some.dedup.value;
      all.held_back = some.held_back;
      all.more = some.more;
    } while (all.more);
    return all;
  }
  std::int64_t in_log() const { return store->inspector()->status().events.value; }
  static std::size_t pending(const Worker& worker) {
    const auto chunks = worker.read();
    return chunks.empty() ? 0 : chunks[0].events.size();
  }

  std::vector<std::string> archived() const {
    std::vector<std::string> ids;
    for (const auto& file : std::filesystem::directory_iterator(root + "/archive")) {
      std::ifstream in(file.path());
      for (std::string line; std::getline(in, line);) {
        EXPECT_EQ('}', line.back());
        ids.push_back(line.substr(7, 36));
      }
    }
    return ids;
  }

  static Operation operation() { return {.id = EventId::make(), .by = "me"}; }

  const std::string root = testing::TempDir() + "/upkeep_test-" + std::to_string(::getpid());
  std::unique_ptr<Store> store;
};

// --- Clean

TEST_F(UpkeepTest, WhatIsSettledEverywhereAndOldGoes) {
  enqueue(1'200);
  settle_all();
  EXPECT_EQ(0, clean({}).events.value) << "it is young";
  CleanOptions dry = everything();
  dry.dry = true;
  EXPECT_EQ(1'200, store->upkeep()->clean(dry).events.value);
  EXPECT_EQ(1'200, in_log());
  EXPECT_EQ(1'200, clean().events.value);
  EXPECT_EQ(0, in_log());
  enqueue(1);
  const auto events = store->inspector()->list({}).events;
  EXPECT_EQ(1'201, events.at(0).seq) << "a number never comes again";
}

TEST_F(UpkeepTest, ASlowDestinationHoldsTheLogBack) {
  enqueue(2);
  settle_all("slow");
  enqueue(2);
  settle_all("fast");
  const Cleaned some = clean();
  EXPECT_EQ(2, some.events.value);
  EXPECT_THAT(some.held_back, ElementsAre(HasSubstr("'slow'")));
  settle_all("slow");
  EXPECT_EQ(2, clean().events.value);
  EXPECT_THAT(clean().held_back, IsEmpty());
}

TEST_F(UpkeepTest, NobodyHasReadItYet) {
  enqueue(1);
  EXPECT_THAT(clean().held_back, ElementsAre("no destination has read the log yet"));
  EXPECT_EQ(1, in_log());
}

TEST_F(UpkeepTest, WhatStillWaitsIsKept) {
  const auto ids = enqueue(3);
  settle_all("out", {{.key = 7, .blocks = true}, {.key = 7, .standing = Standing::dead}});
  EXPECT_EQ(3, clean({.events_older_than = -10s}).events.value);
  EXPECT_EQ(0, in_log());
  const Worker relay = worker();
  const Wanted wanted{.key = 7, .events_max = 10};
  const Fetched fetched = relay.session->fetch(std::span(&wanted, 1));
  ASSERT_EQ(1U, fetched.items.size());
  EXPECT_EQ(ids[0], fetched.items[0].event.id);
  EXPECT_EQ("1", fetched.items[0].event.payload);
  EXPECT_EQ("dead", store->inspector()->find(ids[1])->destinations.at(0).state);
  EXPECT_EQ(ids[1],
            store->inspector()->undelivered({.standings = {Standing::dead}, .topic = "t"}).events.at(0).event.id);
  EXPECT_EQ(1, clean().dead.value);
  EXPECT_FALSE(store->inspector()->find(ids[1]));
  Settlement delivered{.term = relay.lease().term, .delivered = {1}};
  relay.session->exchange(std::span(&delivered, 1), {});
  clean();
  EXPECT_FALSE(store->inspector()->find(ids[0]));
}

TEST_F(UpkeepTest, ADeadLetterThatBlocksWaitsForAPerson) {
  enqueue(1);
  settle_all("out", {{.key = 7, .standing = Standing::dead, .blocks = true}});
  EXPECT_EQ(0, clean().dead.value);
  EXPECT_EQ(1, store->operate()->count({.destination = "out"}));
}

TEST_F(UpkeepTest, Row35_TheApplicationGoesFirst) {
  enqueue(2);
  settle_all();
  sqlite3* app = nullptr;
  ASSERT_EQ(SQLITE_OK, sqlite3_open(path("one").c_str(), &app));
  const auto run = [&](const char* sql) { return sqlite3_exec(app, sql, nullptr, nullptr, nullptr); };
  ASSERT_EQ(SQLITE_OK, run("BEGIN IMMEDIATE"));
  ASSERT_EQ(SQLITE_OK, run("INSERT INTO waybill_event (topic, payload, created_at) VALUES ('late', '1', '2001')"));
  const Cleaned nothing = store->upkeep()->clean(everything());
  EXPECT_EQ(0, nothing.events.value);
  EXPECT_TRUE(nothing.more);
  EXPECT_EQ(SQLITE_OK, run("INSERT INTO waybill_event (topic, payload) VALUES ('late', '1')"));
  EXPECT_EQ(SQLITE_OK, run("COMMIT"));
  sqlite3_close(app);
  EXPECT_EQ(2, clean().events.value) << "the late ones are not settled, however old";
  EXPECT_EQ(2U, pending(worker()));
}

TEST_F(UpkeepTest, AUsedDedupKeyIsForgottenInTime) {
  const auto first = enqueue(*store, 1, "once");
  EXPECT_EQ(first, enqueue(*store, 1, "once"));
  EXPECT_EQ(1, clean().dedup.value);
  EXPECT_NE(first, enqueue(*store, 1, "once"));
}

TEST_F(UpkeepTest, OldPlacesGoAndTheNewestStays) {
  for (int i = 0; i < 5; ++i) {
    enqueue(1);
    settle_all();
  }
  clean();
  EXPECT_EQ(0U, pending(worker()));
}

TEST_F(UpkeepTest, AFollowerIsToldThatItsPlaceIsGone) {
  enqueue(3);
  settle_all();
  const std::string place = store->follow()->read("", 1).place;
  const std::string last = store->follow()->read("", 10).place;
  clean();
  EXPECT_THROW(store->follow()->read(place, 1), Error);
  enqueue(1);
  EXPECT_EQ(1U, store->follow()->read("", 10).items.size());
  EXPECT_EQ(1U, store->follow()->read(last, 10).items.size());
}

TEST_F(UpkeepTest, AStopEndsACleaningBeforeItsNextBatch) {
  enqueue(1'200);
  settle_all("out", {{.standing = Standing::dead}});
  std::stop_source stop;
  stop.request_stop();
  CleanOptions options = everything();
  options.archive_to = root + "/archive";
  options.stop = stop.get_token();
  const Cleaned cleaned = store->upkeep()->clean(options);
  EXPECT_EQ(0, cleaned.events.value + cleaned.dead.value);
  EXPECT_TRUE(cleaned.more);
  EXPECT_THAT(archived(), IsEmpty());
  EXPECT_EQ(1'200, in_log());
  options.stop = {};
  EXPECT_EQ(1'200, clean(options).events.value);
}

TEST_F(UpkeepTest, TheArchiveGetsEveryEventOnce) {
  std::multiset<std::string> ids;
  for (const EventId& id : enqueue(1'200)) ids.insert(id.to_string());
  settle_all();
  CleanOptions options = everything();
  options.archive_to = root + "/archive";
  EXPECT_EQ(1'200, clean(options).events.value);
  const auto lines = archived();
  EXPECT_EQ(ids, (std::multiset<std::string>(lines.begin(), lines.end())));
}

TEST_F(UpkeepTest, Row10_KilledInTheMiddleEveryEventIsInOnePlace) {
  std::multiset<std::string> ids;
  for (const EventId& id : enqueue(6'000)) ids.insert(id.to_string());
  settle_all();
  CleanOptions options = everything();
  options.archive_to = root + "/archive";
  int kills = 0;
  for (int i = 0; i < 40 && in_log() > 0; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      try {
        open("one")->upkeep()->clean(options);
      } catch (...) {
        ::_exit(1);
      }
      ::_exit(0);
    }
    ::usleep(static_cast<useconds_t>(3'000 + 2'300 * i % 40'000));
    ::kill(child, SIGKILL);
    int status = 0;
    ASSERT_EQ(child, ::waitpid(child, &status, 0));
    if (WIFSIGNALED(status)) ++kills;
    store->upkeep()->clean({.events_older_than = 1h, .archive_to = options.archive_to});  // Mends, and deletes nothing.
    std::multiset<std::string> found;
    for (const std::string& id : archived()) found.insert(id);
    ASSERT_EQ(6'000U, found.size() + static_cast<std::size_t>(in_log())) << i;
    for (const EventView& event : store->inspector()->list({.limit = 10'000}).events)
      found.insert(event.id.to_string());
    ASSERT_EQ(ids, found) << i;
  }
  EXPECT_GT(kills, 2);
}

// --- Operators

TEST_F(UpkeepTest, ARewindBeatsWhatTheRelayIsSending) {
  const auto ids = enqueue(4);
  const Worker relay = worker();
  relay.settle({{.key = 7, .standing = Standing::dead}, {.key = 7, .standing = Standing::dead}});
  enqueue(1);
  const auto other = open("one");
  const auto desk = other->operate();
  EXPECT_EQ(3, desk->rewind(operation(), "out", {.event = ids[1]}, true).value);
  const Operation once = operation();
  EXPECT_EQ(3, desk->rewind(once, "out", {.event = ids[1]}, false).value);
  EXPECT_EQ(3, desk->rewind(once, "out", {.event = ids[1]}, false).value) << "the same operation, once";
  EXPECT_FALSE(relay.settle()) << "what was sent before is not settled over it";
  const Pulse pulse = relay.beat();
  EXPECT_TRUE(pulse.mine.empty());
  const auto opened = relay.session->open(relay.membership->take(pulse.free), Start::beginning, false);
  ASSERT_EQ(1U, opened.size());
  EXPECT_EQ(0, opened[0].crashes);
  const auto chunks = relay.read();
  EXPECT_EQ(ids[1], chunks.at(0).events.at(0).id);
  EXPECT_EQ(4U, chunks[0].events.size());
  EXPECT_EQ("dead", store->inspector()->find(ids[0])->destinations.at(0).state);
  EXPECT_EQ("pending", store->inspector()->find(ids[1])->destinations.at(0).state);
  const auto history = desk->history(10);
  ASSERT_EQ(1U, history.size());
  EXPECT_EQ("rewind", history[0].kind);
}

TEST_F(UpkeepTest, ARewindGoesToTheBeginningOrATime) {
  enqueue(3);
  settle_all();
  const auto desk = store->operate();
  EXPECT_EQ(3, desk->rewind(operation(), "out", {}, false).value);
  EXPECT_EQ(0, desk->rewind(operation(), "out", {}, false).value) << "it is there";
  settle_all();
  EXPECT_EQ(3, desk->rewind(operation(), "out", {.time = system_clock().now() - 1min}, false).value);
  EXPECT_EQ(0, desk->rewind(operation(), "out", {.time = system_clock().now() + 1min}, false).value);
  EXPECT_THROW(desk->rewind(operation(), "nowhere", {}, false), Error);
  EXPECT_EQ(3U, pending(worker()));
}

TEST_F(UpkeepTest, AForgottenDestinationHoldsNothingBack) {
  enqueue(2);
  settle_all("out");
  const Worker relay = worker("old");
  EXPECT_THROW(store->operate()->forget(operation(), "nowhere", false), Error);
  relay.beat();
  EXPECT_THROW(store->operate()->forget(operation(), "old", false), Error) << "a relay serves it";
  relay.leave();
  EXPECT_EQ(2, store->operate()->forget(operation(), "old", true).value);
  EXPECT_EQ(0, clean().events.value);
  EXPECT_EQ(2, store->operate()->forget(operation(), "old", false).value);
  EXPECT_EQ(2, clean().events.value);
}

TEST_F(UpkeepTest, AnOperatorOfAnotherProcessWorksBesideARelay) {
  enqueue(300);
  const Worker relay = worker();
  relay.settle(std::vector<Undelivered>(300, {.standing = Standing::dead}));
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      const auto desk = open("one")->operate();
      const Operation one{.id = EventId::make(), .by = "child"};
      std::int64_t redriven = 0;
      while (const auto some = desk->redrive(one, {.destination = "out"}, 7)) redriven += some;
      ::_exit(redriven == 300 ? 0 : 1);
    } catch (...) {
      ::_exit(2);
    }
  }
  std::set<std::int64_t> delivered;
  const Steady deadline = system_clock().steady() + 30s;
  while (delivered.size() < 300 && system_clock().steady() < deadline) {
    const Wanted wanted{.events_max = 10};
    const Fetched fetched = relay.session->fetch(std::span(&wanted, 1));
    Settlement settlement{.term = relay.lease().term};
    for (const auto& item : fetched.items) settlement.delivered.push_back(item.row.seq);
    EXPECT_TRUE(relay.session->exchange(std::span(&settlement, 1), {}).lost.empty());
    delivered.insert(settlement.delivered.begin(), settlement.delivered.end());
  }
  int status = 0;
  ASSERT_EQ(child, ::waitpid(child, &status, 0));
  EXPECT_EQ(0, status);
  EXPECT_EQ(300U, delivered.size());
  EXPECT_EQ(0, store->operate()->count({}));
}

TEST_F(UpkeepTest, AnEditIsCheckedBeforeItIsTaken) {
  const auto ids = enqueue(1);
  settle_all("out", {{.standing = Standing::held}});
  const auto desk = store->operate();
  EXPECT_THROW(desk->edit(operation(), "out", ids[0], {.payload = "{"}), Error);
  EXPECT_THROW(desk->edit(operation(), "out", ids[0], {.headers = "[]"}), Error);
  desk->edit(operation(), "out", ids[0], {.payload = "{}", .headers = "{}"});
  EXPECT_EQ("edit", desk->history(10).at(0).kind);
}

TEST_F(UpkeepTest, ARelayThatDiesWithoutGettingAnywhereIsCounted) {
  enqueue(2);
  const auto die = [&] {
    const std::int32_t crashes = worker().opened.at(0).crashes;
    store = open("one");
    return crashes;
  };
  EXPECT_EQ(0, die());
  EXPECT_EQ(1, die());
  EXPECT_EQ(2, die());
  worker().settle();
  store = open("one");
  EXPECT_EQ(0, die()) << "the cursor has moved";
  EXPECT_EQ(1, die());
  worker().leave();
  EXPECT_EQ(0, die()) << "a clean end";
}

// --- Identity

TEST_F(UpkeepTest, ACopyPublishesNothingUntilItIsAnchored) {
  enqueue(2);
  settle_all();
  enqueue(1);
  copy("one", "two");
  const auto clone = open("two");
  const Worker relay = worker(*clone);
  EXPECT_TRUE(relay.beat().paused.contains("out"));
  EXPECT_TRUE(clone->inspector()->status().destinations.at(0).paused);
  EXPECT_FALSE(worker().beat().paused.contains("out")) << "the original goes on";
  const auto upkeep = clone->upkeep();
  EXPECT_TRUE(upkeep->anchor(operation(), true).needed);
  EXPECT_TRUE(relay.beat().paused.contains("out"));
  const Anchored anchored = upkeep->anchor(operation(), false);
  EXPECT_THAT(anchored.found, HasSubstr("a copy"));
  EXPECT_EQ(1, anchored.to_be_sent.value);
  EXPECT_TRUE(relay.beat().paused.contains("out")) << "until a person resumes it";
  clone->operate()->pause(operation(), "out", false);
  EXPECT_FALSE(relay.beat().paused.contains("out"));
  EXPECT_FALSE(upkeep->anchor(operation(), false).needed);
  relay.leave();
  EXPECT_EQ(1U, pending(worker(*clone)));
  EXPECT_FALSE(store->upkeep()->anchor(operation(), true).needed);
}

TEST_F(UpkeepTest, Row38_AFileReplacedUnderARelayIsNoticed) {
  enqueue(2);
  settle_all();
  const Worker relay = worker();
  const std::string backup = root + "/backup.db";
  store.reset();
  std::filesystem::copy(path("one"), backup);
  std::filesystem::rename(backup, path("one"));
  EXPECT_THROW(relay.beat(), Error);
  EXPECT_THROW(relay.read(), Error) << "what it would read is in no file that has a name";
}

TEST_F(UpkeepTest, ALostFileOfOursIsNoticed) {
  enqueue(3);
  settle_all();
  store.reset();
  std::filesystem::remove(path("one") + "-waybill");
  std::filesystem::remove(path("one") + "-waybill-wal");
  store = open("one");
  EXPECT_THROW(worker(), Error);
  EXPECT_THROW(store->upkeep()->clean(everything()), Error);
  const Anchored anchored = store->upkeep()->anchor(operation(), false);
  EXPECT_EQ(3, anchored.to_be_sent.value);
  const Worker relay = worker(*store, "out", Start::now);
  EXPECT_TRUE(relay.beat().paused.contains("out"));
  EXPECT_EQ(3U, pending(relay)) << "nobody knows that it has got them";
}

TEST_F(UpkeepTest, AnotherLogIsNoticed) {
  enqueue(3);
  settle_all();
  const auto other = fresh("two");
  enqueue(*other, 5);
  store.reset();
  std::filesystem::copy(path("two"), path("one"), std::filesystem::copy_options::overwrite_existing);
  std::filesystem::remove(path("one") + "-wal");
  store = open("one");
  EXPECT_THROW(worker(), Error);
  EXPECT_FALSE(store->inspector()->examine().empty());
  EXPECT_EQ(5, store->upkeep()->anchor(operation(), false).to_be_sent.value);
  EXPECT_EQ(5U, pending(worker()));
}

TEST_F(UpkeepTest, AnOlderLogIsNoticedAlsoWhenItHasGrownAgain) {
  enqueue(2);
  settle_all();
  const std::string backup = root + "/backup.db";
  store.reset();
  std::filesystem::copy(path("one"), backup);
  store = open("one");
  enqueue(2);
  settle_all("out", {{.key = 7, .standing = Standing::dead}});
  store.reset();
  std::filesystem::copy(backup, path("one"), std::filesystem::copy_options::overwrite_existing);
  store = open("one");
  EXPECT_THROW(worker(), Error) << "it ends before what was settled";
  enqueue(3);
  EXPECT_THROW(worker(), Error) << "other events have the numbers of those that were settled";
  EXPECT_EQ(3, store->upkeep()->anchor(operation(), true).to_be_sent.value);
  EXPECT_EQ(3, store->upkeep()->anchor(operation(), false).to_be_sent.value);
  EXPECT_EQ(0, store->operate()->count({})) << "the event it was about is nowhere";
  EXPECT_EQ(3U, pending(worker()));
}

// An older log gives out numbers again; what our own file keeps under them are other events.
TEST_F(UpkeepTest, WhatIsKeptIsNotTakenForANewEventOfTheSameNumber) {
  enqueue(2);
  settle_all();
  const std::string backup = root + "/backup.db";
  store.reset();
  std::filesystem::copy(path("one"), backup);
  for (const bool grown : {false, true}) {
    SCOPED_TRACE(grown ? "the log has grown again" : "the log is as it was");
    store = open("one");
    const auto ids = enqueue(2);
    settle_all("out", {{.key = 7, .standing = Standing::dead}});
    CleanOptions options = everything();
    options.dead_older_than = 24h;
    clean(options);
    ASSERT_EQ(0, in_log());
    store.reset();
    std::filesystem::copy(backup, path("one"), std::filesystem::copy_options::overwrite_existing);
    store = open("one");
    std::vector<EventId> fresh;
    if (grown) fresh = enqueue(2);
    EXPECT_TRUE(store->upkeep()->anchor(operation(), false).needed);
    if (!grown) fresh = enqueue(2);
    std::set<EventId> dead;
    for (const auto& view : store->inspector()->undelivered({.standings = {Standing::dead}}).events)
      dead.insert(view.event.id);
    EXPECT_TRUE(dead.contains(ids[0]));
    for (const EventId& id : fresh) EXPECT_EQ("pending", store->inspector()->find(id)->destinations.at(0).state);
    store->operate()->pause(operation(), "out", false);
    settle_all();
    for (const EventId& id : fresh) EXPECT_EQ("published", store->inspector()->find(id)->destinations.at(0).state);
  }
}

TEST_F(UpkeepTest, AFileOfTheFirstVersionIsBroughtUpToDate) {
  enqueue(3);
  sqlite3* state = nullptr;
  ASSERT_EQ(SQLITE_OK, sqlite3_open((path("one") + "-waybill").c_str(), &state));
  ASSERT_EQ(SQLITE_OK,
            sqlite3_exec(state,
                         "CREATE TABLE cursor (destination TEXT NOT NULL, seq INTEGER NOT NULL, settled_at TEXT NOT "
                         "NULL, count INTEGER NOT NULL, PRIMARY KEY (destination, seq)) WITHOUT ROWID; "
                         "INSERT INTO cursor VALUES ('out', 0, '2026-01-01T00:00:00Z', 0), "
                         "('out', 2, '2026-01-01T00:00:00Z', 2)",
                         nullptr, nullptr, nullptr));
  sqlite3_close(state);
  EXPECT_EQ(1U, pending(worker()));
}

}  // namespace
}  // namespace waybill
