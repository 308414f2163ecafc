// What is SQLite's own; what every store does is in test/conformance/.

#include <filesystem>
#include <optional>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

#include "waybill/error.h"
#include "waybill/sqlite.h"

#include "base/time_text.h"
#include "base/waker.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// While it lives there is a VFS of this name, on which to sync the write-ahead log takes a while.
class SlowSync {
 public:
  static constexpr const char* name = "slow";
  SlowSync() : vfs_(*sqlite3_vfs_find(nullptr)) {
    vfs_.zName = name;
    vfs_.xOpen = [](sqlite3_vfs* /*vfs*/, const char* path, sqlite3_file* file, int flags, int* out) {
      sqlite3_vfs* usual = sqlite3_vfs_find(nullptr);
      const int code = usual->xOpen(usual, path, file, flags, out);
      if (code != SQLITE_OK || (flags & SQLITE_OPEN_WAL) == 0) return code;
      usual_methods = file->pMethods;
      methods = *usual_methods;
      methods.xSync = [](sqlite3_file* wal, int how) {
        std::this_thread::sleep_for(100ms);
        return usual_methods->xSync(wal, how);
      };
      file->pMethods = &methods;
      return code;
    };
    sqlite3_vfs_register(&vfs_, 0);
  }
  ~SlowSync() { sqlite3_vfs_unregister(&vfs_); }
  SlowSync(const SlowSync&) = delete;
  SlowSync& operator=(const SlowSync&) = delete;

 private:
  sqlite3_vfs vfs_;
  inline static const sqlite3_io_methods* usual_methods = nullptr;
  inline static sqlite3_io_methods methods{};
};

class SqliteStoreTest : public testing::Test {
 protected:
  SqliteStoreTest() {
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    store = open();
    store->schema()->migrate();
    EXPECT_EQ(SQLITE_OK, sqlite3_open(path.c_str(), &app));
  }
  ~SqliteStoreTest() override {
    sqlite3_close(app);
    store.reset();
    std::filesystem::remove_all(folder);
  }

  std::unique_ptr<Store> open() const { return sqlite_store({.path = path}); }

  // What SQLite says against it; empty if nothing.
  std::string refusal(const std::string& sql) const {
    return sqlite3_exec(app, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK ? "" : sqlite3_errmsg(app);
  }
  std::string insert(const std::string& column, const std::string& value) const {
    return refusal("INSERT INTO waybill_event (topic, payload, " + column + ") VALUES ('t', '1', " + value + ")");
  }

  std::vector<EventView> read_all() {
    page = store->follow()->read("", 100);
    std::vector<EventView> events;
    for (const auto& item : page.items) events.push_back(item.event);
    return events;
  }

  const std::string folder = testing::TempDir() + "/sqlite_store_test-" + std::to_string(::getpid());
  const std::string path = folder + "/app.db";
  std::unique_ptr<Store> store;
  sqlite3* app = nullptr;
  Follower::Page page;
};

TEST_F(SqliteStoreTest, AnIdIsAUuid) {
  EXPECT_EQ("", insert("id", "'018f3c1e-7a00-7abc-8def-0123456789ab'"));
  EXPECT_EQ("", insert("id", "'018F3C1E-7A00-7ABC-8DEF-0123456789AB'"));
  for (const char* id : {"'xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx'", "'018f3c1e7a007abc8def0123456789ab----'",
                         "'018f3c1e-7a00-7abc-8def-0123456789a'", "'018f3c1e-7a00-7abc-8def-01234567-9ab'"})
    EXPECT_THAT(insert("id", id), HasSubstr("id must be a UUID")) << id;
  EXPECT_EQ(2U, read_all().size());
}

TEST_F(SqliteStoreTest, HeadersAreStrings) {
  for (const char* good : {R"('{}')", R"('{"a":"b", "c":""}')", R"('{"a":"\u00e4 \"x\": 1"}')",
                           R"('{"a":"\ud83d\ude00 \ufffd"}')", "NULL"})
    EXPECT_EQ("", insert("headers", good)) << good;
  for (const char* bad :
       {R"('{"a":1}')", R"('{"a":null}')", R"('{"a":["b"]}')", R"('{"a":"b","c":{}}')", R"('{"":"b"}')",
        R"('{"a":"x\ny"}')", R"('{"a":"\u0000"}')", R"('{"a":"x\u0000"}')", R"('{"a":"\u0085"}')",
        R"('{"a":"\ud83d"}')", R"('{"\ude00":"b"}')", R"('{"a":"b","a":"c"}')"})
    EXPECT_THAT(insert("headers", bad), HasSubstr("headers must be a JSON object of strings")) << bad;
  for (const char* none : {"'[]'", "'x'", "'1'"})
    EXPECT_THAT(insert("headers", none), HasSubstr("headers must be a JSON object of at most")) << none;
}

TEST_F(SqliteStoreTest, OneBadRowDoesNotStopTheOthers) {
  EXPECT_EQ("", refusal("PRAGMA ignore_check_constraints = ON"));
  EXPECT_EQ("", insert("id", "'no id at all'"));
  EXPECT_EQ("", insert("id", "'nor is this'"));
  const auto first = read_all();
  const auto second = read_all();
  ASSERT_EQ(2U, first.size());
  EXPECT_NE(first[0].id, first[1].id);
  EXPECT_EQ(first[0].id, second[0].id) << "the same each time: consumers drop duplicates by it";
}

TEST_F(SqliteStoreTest, ATimeCountsInEveryFormThatIsTaken) {
  for (const char* time : {"'2020-01-01T10:00Z'", "'2020-01-01T10:00:00Z'", "'2020-01-01 10:00:00'",
                           "'2020-01-01T12:00+02:00'", "'2020-01-01T10:00:00.000000000Z'", "'2020-01-01T10:00:00 Z'",
                           "'2020-01-01T10:00:00.0000000000Z'", "datetime('2020-01-01', '+10 hours')"})
    EXPECT_EQ("", insert("not_before", time)) << time;
  const auto events = read_all();
  EXPECT_EQ(8U, events.size());
  for (const EventView& event : events) {
    ASSERT_TRUE(event.not_before) << event.seq;
    EXPECT_EQ("2020-01-01T10:00:00.000000Z", to_rfc3339(*event.not_before)) << event.seq;
  }
}

TEST_F(SqliteStoreTest, AnEventAsksForNoMoreThanItMay) {
  EXPECT_EQ("", insert("attempts_max", "1000"));
  for (const char* wrong : {"0", "1001", "2147483647", "'many'"})
    EXPECT_THAT(insert("attempts_max", wrong), HasSubstr("attempts_max must be between 1 and 1000")) << wrong;
  EXPECT_EQ("", insert("not_before", "datetime('now', '+366 days')"));
  EXPECT_THAT(insert("not_before", "datetime('now', '+367 days')"),
              HasSubstr("not_before must be at most 366 days ahead"));
}

TEST_F(SqliteStoreTest, WhatIsNoTimeIsRefused) {
  for (const char* column : {"occurred_at", "not_before", "expires_at"})
    for (const char* time : {"'tomorrow'", "'10:00'", "'2030-01-01'", "2462502.5", "'2030-02-31T10:00:00Z'", "''",
                             "'2030-01-01T24:00:00Z'", "'2030-01-01T10:60Z'", "'2030-01-01T10:00:00Zulu'"})
      EXPECT_THAT(insert(column, time), HasSubstr(std::string(column) + " must be a time")) << column << ' ' << time;
}

TEST_F(SqliteStoreTest, AnUndeliveredEventThatWasDeletedIsMissing) {
  EXPECT_EQ("", insert("key", "'k'"));
  const std::vector<std::string> out{"out"};
  const auto membership = store->join({.id = "a", .name = "a"});
  const auto session = store->connect({.id = "a", .name = "a"}, "out");
  const auto leases = membership->take(membership->beat(out).free);
  ASSERT_EQ(1U, session->open(leases, Start::beginning, false).size());
  const Reading reading = session->exchange({}, {.shards = {0}, .events_max = 10, .bytes_max = 1'000'000});
  const EventView event = reading.chunks.at(0).events.at(0);
  Settlement settlement{.term = leases[0].term,
                        .window = reading.chunks[0].window,
                        .seq = event.seq,
                        .window_done = true,
                        .count = 1,
                        .undelivered = {{.seq = event.seq, .key = 7, .blocks = true, .attempts = 1}}};
  EXPECT_TRUE(session->exchange(std::span(&settlement, 1), {}).lost.empty());
  EXPECT_EQ("", refusal("DELETE FROM waybill_event"));
  const Wanted wanted{.key = 7, .events_max = 10};
  const Fetched fetched = session->fetch(std::span(&wanted, 1));
  ASSERT_EQ(1U, fetched.items.size());
  EXPECT_TRUE(fetched.items[0].missing);
  EXPECT_EQ(event.id, fetched.items[0].event.id);
}

TEST_F(SqliteStoreTest, Security37_FilesAreTheirOwnersAlone) {
  const auto membership = store->join({.id = "a", .name = "a"});
  const auto session = store->connect({.id = "a", .name = "a"}, "out");
  EXPECT_EQ("", insert("key", "'k'"));
  int count = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    ++count;
    EXPECT_EQ(std::filesystem::perms::owner_read | std::filesystem::perms::owner_write,
              file.status().permissions() & std::filesystem::perms::all)
        << file.path();
  }
  EXPECT_GE(count, 5) << "the database, its -wal and -shm, our own file, its lock";
}

TEST_F(SqliteStoreTest, ALostMembershipDoesNotLetAnotherRelayIn) {
  const auto other = open();
  const RelayIdentity one{.id = "one", .name = "one"};
  const RelayIdentity two{.id = "two", .name = "two"};
  auto membership = store->join(one);
  auto session = store->connect(one, "out");
  EXPECT_THROW(other->join(two), Error);
  membership.reset();  // As after an error; the session has events on their way.
  EXPECT_THROW(other->join(two), Error);
  EXPECT_THROW(store->join(two), Error) << "nor one of this process";
  session.reset();
  EXPECT_THROW(other->join(two), Error) << "a sink may have them still";
  membership = store->join(one);
  membership->leave();
  other->join(two);
}

// With synchronous = FULL a write is told of before the sync, and can be seen after it.
TEST_F(SqliteStoreTest, WhatIsSeenLaterThanItIsToldIsFound) {
  const SlowSync slow;
  const auto membership = store->join({.id = "a", .name = "a"});
  Waker waker;
  ASSERT_EQ(Membership::Sleep::told, membership->sleep());
  std::jthread application([&] {
    sqlite3* connection = nullptr;
    EXPECT_EQ(SQLITE_OK, sqlite3_open_v2(path.c_str(), &connection, SQLITE_OPEN_READWRITE, SlowSync::name));
    EXPECT_EQ(SQLITE_OK, sqlite3_exec(connection,
                                      "PRAGMA synchronous = FULL; INSERT INTO waybill_event (topic, payload) VALUES "
                                      "('t', '1')",
                                      nullptr, nullptr, nullptr));
    sqlite3_close(connection);
  });
  const Steady deadline = system_clock().steady() + 10s;
  ASSERT_EQ(Membership::Told::news, membership->wait(waker, deadline));
  ASSERT_FALSE(membership->poll()) << "told of before it can be seen";
  while (read_all().empty() && system_clock().steady() < deadline) {
    while (membership->wait(waker, deadline) != Membership::Told::news && system_clock().steady() < deadline) continue;
  }
  EXPECT_LT(system_clock().steady(), deadline - 5s);
}

}  // namespace
}  // namespace waybill
