// Many writers, order per key under a lock: nothing is lost, nothing comes twice, nothing out of order.

#include <atomic>
#include <random>
#include <set>

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

constexpr int keys = 12;

using Delivered = std::map<std::string, std::vector<int>>;  // key -> versions in the order of settling

void add(Delivered& delivered, const std::vector<Reader::Seen>& events) {
  for (const auto& event : events) delivered[event.key].push_back(std::stoi(event.name));
}

// An application that obeys the rule: it locks the aggregate (by an update that counts its version), then enqueues.
class Application {
 public:
  Application(const std::string& url, std::uint64_t seed) : sql_(url), random_(seed) {}

  bool chance(double probability) { return std::uniform_real_distribution<>(0, 1)(random_) < probability; }
  int below(int end) { return std::uniform_int_distribution<>(0, end - 1)(random_); }

  // One transaction of one to three events.
  void transaction() {
    sql_("BEGIN");
    if (chance(0.3)) sql_("SELECT pg_current_xact_id()");
    if (chance(0.3)) pause();
    std::set<int> mine;
    for (int i = 0; i < 1 + below(3); ++i) mine.insert(below(keys));
    for (const int key : mine) {
      if (chance(0.2)) undone(key);
      write(key);
      if (chance(0.1)) write(key);
    }
    if (chance(0.4)) pause();
    sql_(chance(0.15) ? "ROLLBACK" : "COMMIT");
  }

 private:
  void write(int key) {
    const auto version =
        sql_("UPDATE aggregate SET version = version + 1 WHERE key = " + std::to_string(key) + " RETURNING version");
    enqueue(sql_.raw(), make_event(version, std::to_string(key)));
  }
  void undone(int key) {
    sql_("SAVEPOINT s");
    write(key);
    sql_("ROLLBACK TO s");
  }
  void pause() { std::this_thread::sleep_for(std::chrono::microseconds(below(chance(0.02) ? 50'000 : 3'000))); }

  Sql sql_;
  std::mt19937_64 random_;
};

struct Plan {
  int shards;
  int limit;
};

class OrderTest : public PostgresTest, public testing::WithParamInterface<Plan> {
 protected:
  OrderTest() : PostgresTest(GetParam().shards) {
    app("CREATE TABLE aggregate (key int PRIMARY KEY, version int NOT NULL) WITH (fillfactor = 10)");
    app("INSERT INTO aggregate SELECT generate_series(0, " + std::to_string(keys - 1) + "), 0");
  }

  // Settles a part of what was read: all, none, or up to the middle of some window.
  void settle_some(Reader& reader) {
    std::map<std::int32_t, std::size_t> counts;
    for (const std::int32_t shard : reader.shards) {
      const std::size_t unsettled = reader.unsettled(shard);
      const int choice = below(3);
      counts[shard] = choice == 0   ? 0
                      : choice == 1 ? unsettled
                                    : static_cast<std::size_t>(below(static_cast<int>(unsettled) + 1));
    }
    EXPECT_TRUE(reader.settle(counts).empty());
  }

  int below(int end) { return std::uniform_int_distribution<>(0, end - 1)(random_); }

  std::mt19937_64 random_;
};

TEST_P(OrderTest, Row26_HoldsWithManyWritersAndManySessions) {
  constexpr int writers = 6;
  constexpr auto duration = 1500ms;
  const auto seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  random_.seed(seed);
  std::atomic<int> writing = writers;
  std::vector<std::jthread> threads;
  for (int i = 0; i < writers; ++i)
    threads.emplace_back([&, i] {
      Application application(url, seed + static_cast<unsigned>(i) + 1);
      const auto end = std::chrono::steady_clock::now() + duration;
      while (std::chrono::steady_clock::now() < end) application.transaction();
      --writing;
    });

  Delivered delivered;
  int sessions = 0;
  for (bool last = false; !last; ++sessions) {
    last = writing == 0;
    Reader reader(*store);
    if (last) {
      reader.read_all(GetParam().limit);
      reader.settle_all();
    } else {
      for (int i = below(12); i >= 0; --i) {
        reader.exchange(GetParam().limit);
        settle_some(reader);
      }
    }
    reader.leave();
    add(delivered, reader.settled);
  }

  std::size_t events = 0;
  for (int key = 0; key < keys; ++key) {
    const auto& versions = delivered[std::to_string(key)];
    events += versions.size();
    std::vector<int> expected(app.number("SELECT version FROM aggregate WHERE key = " + std::to_string(key)));
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int>(i) + 1;
    EXPECT_EQ(expected, versions) << "key " << key;
  }
  EXPECT_EQ(app.number("SELECT count(*) FROM waybill.event"), static_cast<std::int64_t>(events));
  RecordProperty("events", static_cast<int>(events));
  RecordProperty("sessions", sessions);
}

INSTANTIATE_TEST_SUITE_P(Plans, OrderTest,
                         testing::Values(Plan{16, 1}, Plan{16, 3}, Plan{16, 50}, Plan{16, 1000}, Plan{1, 1}, Plan{1, 3},
                                         Plan{1, 50}, Plan{1, 1000}),
                         [](const auto& plan) {
                           return std::to_string(plan.param.shards) + "Shards" + std::to_string(plan.param.limit);
                         });

// Enqueues that nothing else orders, by `serialize`: the order of a key is the order of the first enqueue of each
// transaction, and with it the order of commits.
class SerializeTest : public PostgresTest {};

TEST_F(SerializeTest, OrdersEventsOfAKeyByALock) {
  std::vector<std::jthread> threads;
  std::atomic<int> writing = 4;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      Sql sql(url);
      for (int n = 0; n < 60; ++n) {
        sql("BEGIN");
        const Event lock = make_event("0", "k");
        enqueue(sql.raw(), lock, {.serialize = true});
        std::this_thread::sleep_for(std::chrono::microseconds(n * 7 % 500));
        enqueue(sql.raw(), make_event("1", "k"), {.serialize = true});
        sql(n % 7 == 3 ? "ROLLBACK" : "COMMIT");
      }
      --writing;
    });
  Reader reader(*store);
  std::string all;
  for (bool last = false; !last;) {
    last = writing == 0;
    all += reader.names(5);
  }
  // Never two transactions mixed: every first event is followed by the second of the same transaction.
  ASSERT_EQ(0U, all.size() % 2);
  for (std::size_t i = 0; i < all.size(); i += 2) ASSERT_EQ("01", all.substr(i, 2)) << i;
  EXPECT_EQ(app.number("SELECT count(*) FROM waybill.event"), std::ssize(all));
}

}  // namespace
}  // namespace waybill
