#include "workload.h"

#include <atomic>
#include <barrier>
#include <exception>
#include <mutex>
#include <thread>

#include <fmt/format.h>

#include "waybill/enqueue.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t payload_bytes = 512;
constexpr int events_per_transaction = 100;
constexpr int loaders = 2;

// Runs `body(i)` on threads of their own; the first exception of any ends up here.
void on_threads(int count, const std::function<void(int)>& body) {
  std::exception_ptr failure;
  std::mutex mutex;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < count; ++i)
      threads.emplace_back([&, i] {
        try {
          body(i);
        } catch (...) {
          const std::lock_guard lock(mutex);
          failure = std::current_exception();
        }
      });
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace

const std::string contract_columns =
    "id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload, content_type, metadata, headers, "
    "routing_key, schema_id, schema_version, occurred_at";

const std::string relay_columns =
    "seq, shard, id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload, payload_bytes, "
    "payload_bytes IS NULL, content_type, metadata, headers, routing_key, schema_id, schema_version, occurred_at, "
    "created_at, not_before, expires_at, attempts_max, dedup_key";

const std::string event_expressions = fmt::format(
    "gen_random_uuid(), 'clinic', 'order.paid', 'OrderPaid', 'order', 'o-' || n % {0}, n, 'o-' || n % {0}, "
    "(rpad('{{\"order\":\"o-' || n || '\",\"text\":\"', {1}, 'x') || '\"}}')::json, 'application/json', "
    "'{{\"trace\":\"4bf92f3577b34da6\"}}'::json, '{{\"source\":\"bench\"}}'::json, 'order.paid', "
    "'https://schemas.example/order-paid', 3, now()",
    keys, payload_bytes - 2);

Event event_number(long n) {
  Event event;
  event.tenant = "clinic";
  event.topic = "order.paid";
  event.type = "OrderPaid";
  event.key = fmt::format("o-{}", n % keys);
  event.aggregate = {"order", event.key};
  event.version = n;
  std::string payload = fmt::format(R"({{"order":"o-{}","text":")", n);
  payload.resize(payload_bytes - 2, 'x');
  event.payload = payload + R"("})";
  event.content_type = "application/json";
  event.metadata = R"({"trace":"4bf92f3577b34da6"})";
  event.headers = {{"source", "bench"}};
  event.routing_key = "order.paid";
  event.schema_id = "https://schemas.example/order-paid";
  event.schema_version = 3;
  event.occurred_at = std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
  return event;
}

void load_events(const std::string& url, long count) {
  on_threads(loaders, [&](int loader) {
    Connection connection(url);
    connection.query("SET synchronous_commit = off");
    const long transactions = count / events_per_transaction;
    connection.query(
        fmt::format("DO $$ BEGIN FOR t IN {}..{} BY {} LOOP INSERT INTO waybill.event ({}) SELECT {} "
                    "FROM generate_series(t * {} + 1, (t + 1) * {}) n; COMMIT; END LOOP; END $$",
                    loader, transactions - 1, loaders, contract_columns, event_expressions, events_per_transaction,
                    events_per_transaction));
  });
  Connection connection(url);
  connection.query("VACUUM ANALYZE");
  connection.query("CHECKPOINT");
}

double calls_per_second(int clients, std::chrono::milliseconds duration, const std::function<Client(int)>& make) {
  std::atomic<bool> stop = false;
  std::atomic<long> calls = 0;
  std::barrier ready(clients + 1);
  double seconds = 0;
  std::jthread clock([&] {
    ready.arrive_and_wait();
    const auto begin = std::chrono::steady_clock::now();
    std::this_thread::sleep_for(duration);
    stop = true;
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  on_threads(clients, [&](int client) {
    Client call;
    std::exception_ptr failure;
    try {
      call = make(client);
    } catch (...) {
      failure = std::current_exception();
    }
    ready.arrive_and_wait();
    if (failure) std::rethrow_exception(failure);
    long own = 0;
    for (; !stop; ++own) call();
    calls += own;
  });
  clock.join();
  return static_cast<double>(calls) / seconds;
}

void pace(int threads, int rate, std::chrono::milliseconds duration, const std::function<PacedClient(int)>& make) {
  const auto begin = std::chrono::steady_clock::now() + 200ms;  // until all are connected
  const auto apart = std::chrono::nanoseconds(std::chrono::seconds(1)) / rate;
  const long count = static_cast<long>(duration / apart);
  on_threads(threads, [&](int thread) {
    const PacedClient act = make(thread);
    for (long n = thread; n < count; n += threads) {
      std::this_thread::sleep_until(begin + n * apart);
      act(n);
    }
  });
}

std::string enqueue_sql() {
  return enqueue_statement(event_number(1), Dialect::postgresql).sql;
}

Connection::Parameters enqueue_parameters(const Event& event) {
  Connection::Parameters parameters;
  for (const Parameter& parameter : enqueue_statement(event, Dialect::postgresql).parameters)
    parameters.push_back(parameter.value);
  return parameters;
}

std::vector<Commit> commit_paced(const std::string& url, long first, int rate, std::chrono::milliseconds duration) {
  constexpr int clients = 4;
  static_assert(keys % clients == 0);
  std::vector<Commit> commits(static_cast<std::size_t>(rate * duration / 1s));
  pace(clients, rate, duration, [&](int) -> PacedClient {
    auto connection = std::make_shared<Connection>(url);
    connection->prepare("enqueue", enqueue_sql());
    return [connection, &commits, first](long n) {
      const auto parameters = enqueue_parameters(event_number(first + n));
      Commit& commit = commits.at(static_cast<std::size_t>(n));
      commit.begun = std::chrono::steady_clock::now();
      connection->query("BEGIN");
      connection->run("enqueue", parameters);
      commit.sent = std::chrono::steady_clock::now();
      connection->query("COMMIT");
      commit.answered = std::chrono::steady_clock::now();
    };
  });
  return commits;
}

}  // namespace waybill::bench
