// What the outbox costs those who write: an enqueue against any other insert, and many writers with relays about.
#include <algorithm>
#include <atomic>
#include <set>

#include <fmt/format.h>

#include "await.h"
#include "bench.h"
#include "commits.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

// An ordinary table with the same columns, and two indexes like those of the log.
constexpr const char* plain_tables =
    "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL, total integer);"
    "CREATE TABLE plain (seq bigint GENERATED ALWAYS AS IDENTITY, bucket smallint NOT NULL, tx bigint NOT NULL, "
    "created_at timestamptz NOT NULL DEFAULT clock_timestamp(), id uuid NOT NULL, tenant text NOT NULL, topic text "
    "NOT NULL, type text, aggregate_type text, aggregate_id text, version bigint, key text, payload json, "
    "content_type text, metadata json, headers json, routing_key text, schema_id text, schema_version integer, "
    "occurred_at timestamptz);"
    "CREATE INDEX ON plain (tx, bucket, seq);"
    "CREATE INDEX ON plain (bucket, seq)";

std::atomic<long> last_number = 0;

// The same INSERT with two more values, into the other table.
std::string plain_sql() {
  std::string sql = enqueue_sql();
  const std::string table = "\"waybill\".event (";
  sql.replace(sql.find(table), table.size(), "plain (bucket, tx, ");
  const std::string values = "VALUES (";
  sql.replace(sql.find(values), values.size(), "VALUES ($17::smallint, $18::bigint, ");
  return sql;
}

// A transaction of an application: its own insert, and one more.
Client order_client(const std::string& url, bool enqueues) {
  auto connection = std::make_shared<Connection>(url);
  connection->prepare("order", "INSERT INTO orders (customer, total) VALUES ($1, $2::integer)");
  connection->prepare("second", enqueues ? enqueue_sql() : plain_sql());
  return [connection, enqueues] {
    const long n = ++last_number;
    auto parameters = enqueue_parameters(event_number(n));
    if (!enqueues) {
      parameters.push_back(std::to_string(n % 16));
      parameters.push_back(std::to_string(n));
    }
    connection->query("BEGIN");
    connection->run("order", {"somebody", "42"});
    connection->run("second", parameters);
    connection->query("COMMIT");
  };
}

Commits orders(Run& run, const std::string& url, bool enqueues, const Relays& relays = {}) {
  return commits(
      run, 8, [&](int) { return order_client(url, enqueues); }, relays);
}

// Keys of the workload that live in these shards.
std::vector<long> numbers_in(Connection& connection, const std::set<int>& shards) {
  std::string list;
  for (const int shard : shards) list += (list.empty() ? "" : ",") + std::to_string(shard);
  std::vector<long> numbers;
  for (const auto& row : connection.query(
           fmt::format("SELECT n FROM generate_series(0, {}) n WHERE waybill.shard_of('clinic', 'o-' || n, NULL, NULL, "
                       "NULL) IN ({})",
                       keys - 1, list)))
    numbers.push_back(std::stol(row[0]));
  return numbers;
}

Commits commits_of_32(Run& run, const std::string& url, const std::vector<long>& numbers, const Relays& relays = {}) {
  const auto make = [&](int) -> Client {
    auto connection = std::make_shared<Connection>(url);
    connection->prepare("enqueue", enqueue_sql());
    return [connection, &numbers] {
      const long n = numbers[static_cast<std::size_t>(++last_number) % numbers.size()];
      connection->run("enqueue", enqueue_parameters(event_number(n)));
    };
  };
  return commits(run, 32, make, relays);
}

}  // namespace

void enqueue_vs_second_insert(Run& run) {
  const std::string url = run.server.migrated_database();
  Connection connection(url);
  connection.query(plain_tables);
  const auto with_relay = [&](bool enqueues) {
    RelayProcess relay(run.waybill, url, {"all"});
    await("a relay owns all shards", 20ms, [&] { return shards_owned(connection)[relay.name()].size() == 16; });
    const Commits done = orders(run, url, enqueues, {&relay});
    relay.stop();
    return done;
  };
  orders(run, url, true);  // The first to write pays for new files.
  orders(run, url, false);
  Figure figure{.name = "enqueue_vs_second_insert", .goal = at_least(0.85)};
  add_rates(figure, "enqueue", "plain",
            side_by_side<Commits>(
                run.scale.pairs() + 2, [&] { return with_relay(true); }, [&] { return with_relay(false); }));
  run.report.add(std::move(figure));

  Figure alone{.name = "enqueue_vs_second_insert_no_relay"};
  add_rates(alone, "enqueue", "plain",
            side_by_side<Commits>(
                run.scale.pairs(), [&] { return orders(run, url, true); }, [&] { return orders(run, url, false); }));
  run.report.add(std::move(alone));
  run.server.drop(url);
}

// One of the two relays owns every shard that is written to; the other could sleep, and must not: its sleep would make
// every producer notify.
void wake_commits_32_writers(Run& run) {
  const std::string url = run.server.migrated_database();
  Connection connection(url);
  std::vector<long> numbers = numbers_in(connection, {0, 1, 2, 3, 4, 5, 6, 7});
  commits_of_32(run, url, numbers);
  const std::string count_written = "SELECT count(*) FROM waybill.event";
  const std::string count_notified = count_written + " WHERE woke";
  std::vector<double> notified;
  Figure figure{.name = "wake_commits_32_writers", .goal = at_least(0.9)};
  const auto with_relays = [&] {
    RelayProcess busy(run.waybill, url, {"all"});
    RelayProcess quiet(run.waybill, url, {"all"});
    await("two relays share the shards", 20ms, [&] {
      auto owned = shards_owned(connection);
      return owned[busy.name()].size() == 8 && owned[quiet.name()].size() == 8;
    });
    numbers = numbers_in(connection, shards_owned(connection)[busy.name()]);
    std::this_thread::sleep_for(1s);  // What was written without them is read by now.
    const double notified_before = connection.number(count_notified);
    const double written_before = connection.number(count_written);
    const Commits done = commits_of_32(run, url, numbers, {&busy, &quiet});
    notified.push_back((connection.number(count_notified) - notified_before) /
                       (connection.number(count_written) - written_before));
    busy.stop();
    quiet.stop();
    return done;
  };
  add_rates(figure, "two relays", "no relay", side_by_side<Commits>(run.scale.pairs() + 2, with_relays, [&] {
              return commits_of_32(run, url, numbers);
            }));
  figure.details["share of commits that notified"] = median(notified);
  run.report.add(std::move(figure));
  run.server.drop(url);
}

}  // namespace waybill::bench
