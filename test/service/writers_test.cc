// Many writers, few aggregates: whoever is late reads again and decides again. No version is missing, none is there
// twice, and they are delivered in order.

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>

#include "waybill/event_store.h"
#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

constexpr int writers = 32;
constexpr int aggregates = 3;

class WritersTest : public PostgresTest {
 protected:
  // As many as are worth the time of a test; for a proof, as many as one likes.
  static int conflicts_wanted() {
    const char* wanted = std::getenv("WAYBILL_TEST_CONFLICTS");
    return wanted ? std::stoi(wanted) : 2'000;
  }

  // Appends until there have been enough conflicts.
  void write(unsigned seed) {
    std::mt19937 random(seed);
    const auto line = waybill::connect(url);
    while (conflicts < conflicts_wanted()) {
      const StreamId stream{.type = "order", .id = std::to_string(random() % aggregates)};
      const bool rolls_back = random() % 10 == 0;
      try {
        Transaction transaction(*line);
        const std::int64_t seen = events.version(*line, stream);
        const std::vector<Event> made(1 + random() % 3, make_event("a", ""));
        events.append(*line, stream, Expected::version(seen), made);
        if (rolls_back) continue;
        transaction.commit();
        appended += std::ssize(made);
      } catch (const Conflict& conflict) {
        EXPECT_GT(conflict.actual(), conflict.expected());
        ++conflicts;
      }
    }
  }

  const EventStore events;
  std::atomic<int> conflicts{0};
  std::atomic<std::int64_t> appended{0};
};

TEST_F(WritersTest, VersionsHaveNoGapAndNoDouble) {
  std::mutex mutex;
  std::map<std::string, std::int64_t> delivered;  // the last version of each aggregate
  std::atomic<std::int64_t> deliveries{0};
  int out_of_order = 0;
  Relay relay(*store, {.name = "test"});
  relay.add({.name = "out"}, sink_from([&](const EventView& event) {
              const std::lock_guard lock(mutex);
              std::int64_t& last = delivered[std::string(event.aggregate_id)];
              if (event.version != last + 1) ++out_of_order;
              last = *event.version;
              ++deliveries;
              return Outcome::Kind::delivered;
            }));
  std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < writers; ++i) threads.emplace_back([this, i] { write(i); });
  }
  EXPECT_TRUE(eventually([&] { return deliveries == appended; }, 60s)) << deliveries << " of " << appended;
  running.request_stop();
  running.join();
  EXPECT_EQ(0, out_of_order);
  EXPECT_EQ(appended, app.number("SELECT count(*) FROM waybill.stream_event"));
  EXPECT_EQ(appended, app.number("SELECT count(*) FROM waybill.event"));
  EXPECT_EQ("0",
            app("SELECT count(*) FROM (SELECT version, row_number() OVER (PARTITION BY aggregate_id ORDER BY version) "
                "AS n, row_number() OVER (PARTITION BY aggregate_id ORDER BY position) AS p FROM "
                "waybill.stream_event) v WHERE version <> n OR version <> p"));
  EXPECT_EQ("0", app("SELECT count(*) FROM waybill.stream_event s FULL JOIN waybill.event e USING (id, version, "
                     "aggregate_id) WHERE s.id IS NULL OR e.id IS NULL"));
  RecordProperty("conflicts", conflicts);
  RecordProperty("appended", std::to_string(appended));
}

}  // namespace
}  // namespace waybill
