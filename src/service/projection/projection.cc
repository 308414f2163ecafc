#include "waybill/projection.h"

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/error_text.h"
#include "database/sql_text.h"
#include "enqueue/replay.h"
#include "enqueue/schema_name.h"
#include "model/projection_metrics.h"
#include "service/checks.h"
#include "service/projection/tables.h"
#include "service/recorded.h"
#include "service_sql.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

constexpr auto pause_least = 50ms;
constexpr auto pause_most = 1'000ms;
constexpr auto pause_after_failure = 1'000ms;
constexpr auto pause_after_failures = 60'000ms;

// What a batch is to have; and what it may, where events have suddenly become large. They are in memory up to three
// times.
constexpr std::size_t batch_bytes_most = 8 << 20;
constexpr std::size_t batch_bytes_limit = 16 << 20;

void check_names(const Projection& projection, const std::string& schema) {
  check_schema(schema);
  const std::string& name = projection.name;
  if (!is_schema_name(name) || name.ends_with("__shadow") || name.ends_with("__old") || name == schema ||
      name == "public" || name.starts_with("pg_"))
    throw Error(Remedy::fix_config,
                fmt::format("a projection's name {}; nor may it end in __shadow or __old, or be another schema's",
                            schema_name_rule));
}

std::unique_ptr<ProjectionTables> tables_of(Dialect dialect, const Projection& projection, const std::string& schema,
                                            const Log& log = {}) {
  return dialect == Dialect::sqlite ? sqlite_projection(projection) : postgres_projection(projection, schema, log);
}

std::string describe(const Projection& projection, const RecordedEvent& event) {
  return fmt::format("projection '{}': event {} ({}, {}/{} version {})", projection.name, event.id.to_string(),
                     event.type, event.stream.type, event.stream.id, event.version);
}

// The schema is first on the search path as long as this lives, whatever is thrown in between.
class WithinSchema {
 public:
  WithinSchema(Connection& connection, const std::string& name)
      : connection_(connection), before_(enter_schema(connection, name)) {}
  WithinSchema(const WithinSchema&) = delete;
  WithinSchema& operator=(const WithinSchema&) = delete;
  ~WithinSchema() {
    try {
      connection_.run("SELECT pg_catalog.set_config('search_path', $1, true)", before_);
    } catch (const std::exception&) {
      // The transaction is broken, and the path goes back with it.
    }
  }

 private:
  Connection& connection_;
  const std::string before_;
};

std::vector<ProjectionProgress> read_progress(Connection& connection, const std::string& schema,
                                              const std::optional<std::string>& name) {
  const std::string_view text =
      connection.dialect() == Dialect::sqlite ? service_sql::projections_sqlite : service_sql::projections;
  const Rows rows = connection.run(service_statement(text, connection.dialect(), schema), name);
  std::vector<ProjectionProgress> found;
  for (std::size_t row = 0; row < rows.size(); ++row)
    found.push_back({.name = rows.text(row, 0),
                     .shadow = rows.boolean(row, 1),
                     .handled = rows.integer(row, 2),
                     .behind = rows.integer(row, 3),
                     .lag = std::chrono::milliseconds(rows.integer(row, 4)),
                     .changed_at = time_at(rows, row, 5)});
  return found;
}

}  // namespace

void check_use(const Projection& projection, Use use, std::int64_t version, bool fed) {
  constexpr std::string_view new_name =
      "give it another name, feed that through a consumer with a new name, and drop the old one afterwards";
  const auto refuse = [&](const std::string& why) {
    throw Error(Remedy::fix_config, fmt::format("projection '{}': {}", projection.name, why));
  };
  if (fed && use != Use::feed)
    refuse(fmt::format("it is fed with events from elsewhere, which the event store does not have; to make it anew, {}",
                       new_name));
  if (!fed && use == Use::feed) refuse("it is made from the event store; events from elsewhere would come twice");
  const bool older = version < projection.version;
  if (version == projection.version || (older && use == Use::rebuild)) return;
  refuse(fmt::format("its tables are of version {}, this program's is {}: {}", version, projection.version,
                     !older ? "start the newer program; to go back on purpose, give this one a version above that"
                     : fed  ? new_name
                            : "rebuild it"));
}

void throw_about(const std::string& what, const std::exception& failure) {
  const std::string text = fmt::format("{}: {}", what, error_text(failure));
  if (dynamic_cast<const Collision*>(&failure)) std::throw_with_nested(Collision(text));
  const auto* const error = dynamic_cast<const Error*>(&failure);
  std::throw_with_nested(Error(error ? error->remedy() : Remedy::fix_input, text));
}

void handle_all(Connection& connection, const Projection& projection, std::span<const RecordedEvent> events) {
  for (const RecordedEvent& event : events) {
    try {
      projection.handlers.handle(event, connection);
    } catch (const std::exception& failure) {
      throw_about(describe(projection, event), failure);
    }
  }
}

std::string enter_schema(Connection& connection, const std::string& name) {
  return connection
      .run(
          "SELECT pg_catalog.current_setting('search_path'), pg_catalog.set_config('search_path', "
          "pg_catalog.concat_ws(', ', pg_catalog.quote_ident($1), nullif(pg_catalog.current_setting('search_path'), "
          "'')), true)",
          name)
      .text(0, 0);
}

std::string with_room(std::string_view sql) {
  return filled_in(filled_in(sql, "room",
                             "count(*) OVER () AS found, sum(u.bytes) OVER (ORDER BY u.position ROWS UNBOUNDED "
                             "PRECEDING) - u.bytes AS before"),
                   "fits", fmt::format("b.before < {}", batch_bytes_limit));
}

void BatchSize::learn(std::span<const RecordedEvent> events) {
  std::size_t bytes = 0;
  for (const RecordedEvent& event : events) bytes += event.payload.size();
  if (bytes > batch_bytes_most) {
    value_ = std::max<std::size_t>(1, events.size() / 2);
  } else if (bytes < batch_bytes_most / 4 && events.size() >= value_) {
    value_ = std::min(most_, value_ * 2);
  }
}

class Projector::State {
 public:
  State(Projection projection, std::function<std::unique_ptr<Connection>()> connect, Log log, std::string schema)
      : projection_(std::move(projection)),
        connect_(std::move(connect)),
        log_(std::move(log)),
        schema_(std::move(schema)) {
    check_names(projection_, schema_);
  }

  std::int64_t catch_up(const std::stop_token& stop) {
    Connection& db = connection();
    // What is remembered about the database does not outlive a failure.
    if (!std::exchange(made_, false)) tables_->make(db, false);
    std::int64_t handled = 0;
    if (tables_->news(db)) {
      bool looked = false;  // What comes after that is for the next call: others may append without end.
      for (Step step; !(looked && step.done) && !stop.stop_requested();) {
        step = tables_->step(db);
        handled += step.handled;
        looked = looked || step.looked;
      }
    }
    made_ = true;
    return handled;
  }

  void run(const std::stop_token& stop) {
    std::chrono::milliseconds pause = pause_least;
    std::chrono::milliseconds failing{};
    while (!stop.stop_requested()) {
      try {
        pause = catch_up(stop) > 0 ? pause_least : std::min(pause * 2, pause_most);
        if (std::exchange(failing, {}) > 0ms) log_.info("projection goes on", {{"projection", projection_.name}});
        wait(stop, pause, true);
      } catch (const std::exception& failure) {
        stand_still(stop, failing, error_text(failure));
      } catch (...) {
        stand_still(stop, failing, "something that is no exception was thrown");
      }
    }
  }

  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    wakes_.notify_all();
  }

  void rebuild(const ProjectionTables::Tell& tell) {
    Connection& db = connection();
    const Replay replay;
    tables_->rebuild(
        db, connect_, tell ? tell : [](std::int64_t, std::int64_t) {});
  }

  ProjectionProgress progress() {
    Connection& db = connection();
    Transaction look(db, {.tenant = projection_.tenant});
    auto found = read_progress(db, schema_, projection_.name);
    if (found.empty())
      throw Error(Remedy::fix_config, fmt::format("there is no projection '{}' yet", projection_.name));
    return found.front();
  }

 private:
  Connection& connection() {
    if (!connection_ || !connection_->usable()) {
      connection_ = connect_();
      tables_ = tables_of(connection_->dialect(), projection_, schema_, log_);
      made_ = false;
    }
    return *connection_;
  }

  void stand_still(const std::stop_token& stop, std::chrono::milliseconds& failing, const std::string& why) {
    failing = failing == 0ms ? pause_after_failure : std::min(failing * 2, pause_after_failures);
    log_.error(
        "projection stands still",
        {{"projection", projection_.name}, {"error", why}, {"again_in", fmt::format("{} s", failing.count() / 1'000)}});
    wait(stop, failing, false);
  }

  void wait(const std::stop_token& stop, std::chrono::milliseconds pause, bool until_woken) {
    std::unique_lock lock(mutex_);
    wakes_.wait_for(lock, stop, pause, [&] { return until_woken && woken_; });
    if (until_woken) woken_ = false;
  }

  const Projection projection_;
  const std::function<std::unique_ptr<Connection>()> connect_;
  const Log log_;
  const std::string schema_;
  std::unique_ptr<Connection> connection_;
  std::unique_ptr<ProjectionTables> tables_;
  bool made_ = false;

  std::mutex mutex_;
  std::condition_variable_any wakes_;
  bool woken_ = false;  // guarded by mutex_
};

Projector::Projector(Projection projection, std::function<std::unique_ptr<Connection>()> connect, Log log,
                     std::string schema)
    : state_(std::make_unique<State>(std::move(projection), std::move(connect), std::move(log), std::move(schema))) {}

Projector::~Projector() = default;

std::int64_t Projector::catch_up() {
  return state_->catch_up({});
}

void Projector::run(const std::stop_token& stop) {
  state_->run(stop);
}

void Projector::wake() {
  state_->wake();
}

void Projector::rebuild(const std::function<void(std::int64_t, std::int64_t)>& tell) {
  state_->rebuild(tell);
}

ProjectionProgress Projector::progress() {
  return state_->progress();
}

std::vector<ProjectionProgress> projections(Connection& connection, const std::string& schema) {
  return read_progress(connection, schema, std::nullopt);
}

std::string prometheus_text(std::span<const ProjectionProgress> projections) {
  Exposition page;
  write_projections(page, projections);
  return page.take();
}

void make_tables(Connection& connection, const Projection& projection, const std::string& schema) {
  check_names(projection, schema);
  tables_of(connection.dialect(), projection, schema)->make(connection, true);
}

bool handle(Connection& connection, const Projection& projection, const RecordedEvent& event) {
  const auto types = projection.handlers.types();
  if ((!projection.stream_type.empty() && projection.stream_type != event.stream.type) ||
      (!projection.tenant.empty() && projection.tenant != event.stream.tenant) ||
      (projection.handlers.ignores_others() && std::find(types.begin(), types.end(), event.type) == types.end()))
    return false;
  if (!connection.in_transaction())
    throw Error(Remedy::fix_input, "an event is handled in a transaction: that in which its id is written down");
  std::optional<WithinSchema> within;
  if (connection.dialect() == Dialect::postgresql) within.emplace(connection, projection.name);
  projection.handlers.handle(event, connection);
  return true;
}

}  // namespace waybill
