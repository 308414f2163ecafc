// Cleaning all the time, under load: beside relays, events that fail, and people who redrive them.

#include <atomic>
#include <set>

#include "waybill/relay.h"

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

// 82: a slot of the ring lasts a second, and what is in it may go as soon as everybody has it.
TEST(CleanRace, Row82_NothingGoesThatIsNotDeliveredOrIsToBeRedriven) {
  const std::string url = TmpPostgres::shared().fresh_database();
  const auto store = postgres_store({.url = url, .shards = 4});
  store->schema()->migrate();
  Sql setup(url);
  setup(
      "ALTER TABLE waybill.event ALTER COLUMN slot SET DEFAULT (extract(epoch FROM clock_timestamp())::bigint % "
      "8)::smallint; UPDATE waybill.identity SET slot_seconds = 1");
  std::mutex mutex;
  std::map<int, int> delivered;
  Relay relay(*store, {.name = "test"});
  // Of 20 events one is rejected until somebody redrives it, one fails now and then.
  relay.add({.name = "out", .retry = {.attempts = 0, .first_delay = 200ms, .max_delay = 2s}},
            sink_from([&, tries = 0](const EventView& event) mutable {
              const int number = std::stoi(std::string(event.payload));
              if (number % 20 == 7 && event.redrives == 0) return Outcome::Kind::rejected;
              if (number % 20 == 13 && ++tries % 4 == 0) return Outcome::Kind::retry;
              const std::lock_guard lock(mutex);
              ++delivered[number];
              return Outcome::Kind::delivered;
            }));
  const std::jthread running([&](const std::stop_token& stop) { relay.run(stop); });
  std::atomic<std::int64_t> cleaned = 0;
  std::jthread cleaning([&](const std::stop_token& stop) {
    const auto upkeep = store->upkeep();
    while (!stop.stop_requested()) cleaned += upkeep->clean({.events_older_than = 1s}).events.value;
  });
  int written = 0;
  {
    Sql sql(url);
    const auto end = std::chrono::steady_clock::now() + 12s;  // The ring comes round.
    while (std::chrono::steady_clock::now() < end) {
      sql("BEGIN");
      for (int i = 0; i < 20; ++i, ++written)
        sql("INSERT INTO waybill.event (topic, key, payload) VALUES ('t', 'k" + std::to_string(written % 50) + "', '" +
            std::to_string(written) + "')");
      sql("COMMIT");
      std::this_thread::sleep_for(5ms);
      // Most of the dead wait until their slot is long gone.
      if (written % 4'000 == 0) store->operate()->redrive({.id = EventId::make()}, {.destination = "out"}, 50);
    }
  }
  const auto everything = [&] {
    store->operate()->redrive({.id = EventId::make()}, {.destination = "out"}, 10'000);
    const std::lock_guard lock(mutex);
    return static_cast<int>(delivered.size()) == written;
  };
  EXPECT_TRUE(eventually(everything, 60s)) << delivered.size() << " of " << written;
  for (const auto& [number, times] : delivered) EXPECT_EQ(1, times) << number;
  EXPECT_GT(cleaned, 0);
  EXPECT_TRUE(eventually([&] { return Sql(url).number("SELECT count(*) FROM waybill.undelivered") == 0; }, 30s));
}

}  // namespace
}  // namespace waybill
