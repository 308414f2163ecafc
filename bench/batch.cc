// A thousand events in one call, against COPY.
#include <array>
#include <map>

#include <fmt/format.h>

#include "waybill/database.h"
#include "waybill/enqueue.h"

#include "bench.h"

namespace waybill::bench {
namespace {

constexpr int batch = 1'000;

// The rows of COPY's binary format.
class BinaryRows {
 public:
  BinaryRows() : bytes_("PGCOPY\n\377\r\n\0", 11) { bytes_.append(8, '\0'); }

  void row(std::int16_t fields) { number(fields); }
  void text(std::string_view value) {
    number(static_cast<std::int32_t>(value.size()));
    bytes_ += value;
  }
  template <typename Number>
  void field(Number value) {
    number(static_cast<std::int32_t>(sizeof(Number)));
    number(value);
  }
  void field(const EventId& id) { text({reinterpret_cast<const char*>(id.bytes.data()), id.bytes.size()}); }
  void field(Time time) {
    constexpr std::int64_t year_2000 = 946'684'800'000'000;
    field(static_cast<std::int64_t>(time.time_since_epoch().count()) - year_2000);
  }
  std::string_view end() {
    number(std::int16_t{-1});
    return bytes_;
  }

 private:
  template <typename Number>
  void number(Number value) {
    for (int shift = 8 * (static_cast<int>(sizeof(Number)) - 1); shift >= 0; shift -= 8)
      bytes_ += static_cast<char>(static_cast<std::uint64_t>(value) >> shift);
  }

  std::string bytes_;
};

// In the order of contract_columns.
void add_row(BinaryRows& rows, const Event& event, bool plain) {
  rows.row(plain ? 18 : 16);
  rows.field(EventId::make());
  for (const std::string* text : {&event.tenant, &event.topic, &event.type, &event.aggregate.type, &event.aggregate.id})
    rows.text(*text);
  rows.field(*event.version);
  for (const std::string* text : {&event.key, &*event.payload, &event.content_type, &event.metadata}) rows.text(*text);
  rows.text(fmt::format(R"({{"{}":"{}"}})", event.headers[0].name, event.headers[0].value));
  for (const std::string* text : {&event.routing_key, &event.schema_id}) rows.text(*text);
  rows.field(*event.schema_version);
  rows.field(*event.occurred_at);
  if (!plain) return;
  rows.field(static_cast<std::int16_t>(*event.version % 16));
  rows.field(static_cast<std::int32_t>(event.payload->size()));
}

struct Rate {
  double per_second = 0;  // events
  double server = 0;      // microseconds of processor time for each
  double client = 0;
};

Rate measured(Run& run, Connection& connection, const Client& write) {
  connection.query("TRUNCATE waybill.event, plain_event");
  connection.query("CHECKPOINT");
  const double server = run.server.cpu();
  const double client = own_cpu_seconds();
  const double calls = calls_per_second(1, run.scale.round(), [&](int) { return write; });
  const double events = calls * batch * std::chrono::duration<double>(run.scale.round()).count();
  return {.per_second = calls * batch,
          .server = 1e6 * (run.server.cpu() - server) / events,
          .client = 1e6 * (own_cpu_seconds() - client) / events};
}

void compare(Run& run, const std::string& name, Goal goal, const std::function<Rate()>& enqueue,
             const std::function<Rate()>& copy) {
  Figure figure{.name = name, .goal = goal};
  std::map<std::string, std::vector<double>> details;
  for (const auto& [ours, theirs] : side_by_side<Rate>(run.scale.many_pairs(), enqueue, copy)) {
    figure.samples.push_back(ours.per_second / theirs.per_second);
    for (const auto& [who, rate] : {std::pair("enqueue", ours), std::pair("copy", theirs)}) {
      details[fmt::format("{} events/s", who)].push_back(rate.per_second);
      details[fmt::format("{} server us/event", who)].push_back(rate.server);
      details[fmt::format("{} client us/event", who)].push_back(rate.client);
    }
  }
  for (auto& [detail, values] : details) figure.details[detail] = median(std::move(values));
  run.report.add(std::move(figure));
}

}  // namespace

void batch_enqueue_vs_copy(Run& run) {
  const std::string url = run.server.migrated_database();
  Connection connection(url);
  connection.query(
      "CREATE TABLE plain_event (LIKE waybill.event INCLUDING DEFAULTS INCLUDING IDENTITY);"
      "ALTER TABLE plain_event ALTER slot SET DEFAULT 0, ALTER woke SET DEFAULT false;"
      "CREATE INDEX ON plain_event (xid, shard, seq);"
      "CREATE INDEX ON plain_event (shard, seq)");
  std::vector<Event> events;
  for (int n = 1; n <= batch; ++n) events.push_back(event_number(n));

  const auto db = waybill::connect(url);
  const auto enqueued = [&] { return measured(run, connection, [&] { enqueue(*db, events); }); };
  const auto copied = [&](bool plain) {
    const std::string sql =
        fmt::format("COPY {} ({}{}) FROM STDIN (FORMAT binary)", plain ? "plain_event" : "waybill.event",
                    contract_columns, plain ? ", shard, octets" : "");
    return measured(run, connection, [&, sql, plain] {
      BinaryRows rows;
      for (const Event& event : events) add_row(rows, event, plain);
      connection.copy_in(sql, rows.end());
    });
  };
  enqueued();
  compare(run, "batch_enqueue_vs_copy", at_least(0.5), enqueued, [&] { return copied(false); });
  compare(run, "batch_enqueue_vs_copy_plain", {}, enqueued, [&] { return copied(true); });
  run.server.drop(url);
}

}  // namespace waybill::bench
