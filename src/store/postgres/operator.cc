#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "store/postgres/database.h"
#include "store/postgres/filter.h"

namespace waybill {
namespace {

std::string hex(std::string_view bytes) {
  std::string text = "\\x";
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

EventId id_at(const PgRows& rows, int row, int column) {
  return EventId::parse(rows.text(row, column)).value_or(EventId{});
}

// Calls the functions that people call from psql (migrations/003_operate.sql).
class PgOperator final : public Operator {
 public:
  explicit PgOperator(PgDatabasePtr database)
      : database_(std::move(database)), connection_(database_->connect("operator", PgRight::operate)) {}

  std::int64_t count(const UndeliveredFilter& filter) override {
    PgParameters parameters{parameter(filter.destination)};
    append_filter(parameters, filter);
    parameters.emplace_back();  // no limit
    const PgStatement statement{&database_->queries.undelivered_count, std::move(parameters)};
    return connection_.transact(std::span(&statement, 1)).at(0).integer(0, 0);
  }

  std::int64_t redrive(const Operation& operation, const UndeliveredFilter& filter, int most) override {
    PgParameters parameters = begin(operation, filter.destination);
    append_filter(parameters, filter);
    parameters.emplace_back(std::to_string(most));
    return call(redrive_, std::move(parameters)).integer(0, 0);
  }

  std::int64_t dismiss(const Operation& operation, const UndeliveredFilter& filter, int most) override {
    PgParameters parameters = begin(operation, filter.destination);
    append_filter(parameters, filter);
    parameters.emplace_back(std::to_string(most));
    return call(dismiss_, std::move(parameters)).integer(0, 0);
  }

  void edit(const Operation& operation, const std::string& destination, const EventId& id, const Edit& edit) override {
    PgParameters parameters = begin(operation, destination);
    parameters.emplace_back(id.to_string());
    parameters.push_back(edit.payload ? std::optional(hex(*edit.payload)) : std::nullopt);
    parameters.push_back(edit.headers);
    call(edit_, std::move(parameters));
  }

  void pause(const Operation& operation, const std::string& destination, bool paused) override {
    call(paused ? pause_ : resume_, begin(operation, destination));
  }

  Count rewind(const Operation& operation, const std::string& destination, const RewindTo& to, bool dry) override {
    PgParameters parameters = begin(operation, destination);
    parameters.push_back(parameter(to.time));
    parameters.push_back(to.event ? std::optional(to.event->to_string()) : std::nullopt);
    parameters.emplace_back(dry ? "t" : "f");
    const PgRows rows = call(rewind_, std::move(parameters));
    return {.value = rows.integer(0, 0), .exact = rows.boolean(0, 1)};
  }

  Count forget(const Operation& operation, const std::string& destination, bool dry) override {
    PgParameters parameters = begin(operation, destination);
    parameters.emplace_back(dry ? "t" : "f");
    const PgRows rows = call(forget_, std::move(parameters));
    return {.value = rows.integer(0, 0), .exact = rows.boolean(0, 1)};
  }

  std::vector<OperationView> history(int limit) override {
    const PgRows rows = connection_.run({&history_, {std::to_string(limit)}});
    std::vector<OperationView> list;
    list.reserve(static_cast<std::size_t>(rows.size()));
    for (int row = 0; row < rows.size(); ++row)
      list.push_back({.id = id_at(rows, row, 0),
                      .kind = std::string(rows.text(row, 1)),
                      .by = std::string(rows.text(row, 2)),
                      .destination = std::string(rows.text(row, 3)),
                      .details = std::string(rows.text(row, 4)),
                      .events = rows.integer(row, 5),
                      .at = rows.time(row, 6)});
    return list;
  }

 private:
  static PgParameters begin(const Operation& operation, const std::string& destination) {
    if (destination.empty()) throw Error(Remedy::fix_input, "name the destination");
    return {destination, operation.id.to_string(), parameter(operation.by)};
  }

  PgRows call(const PgQuery& query, PgParameters parameters) {
    const PgStatement statement{&query, std::move(parameters)};
    return std::move(connection_.transact(std::span(&statement, 1)).at(0));
  }

  PgQuery query(const std::string& name, std::string_view text) const {
    return {name, filled_in(text, "schema", database_->options.schema)};
  }

  PgDatabasePtr database_;
  PgConnection connection_;
  const PgQuery redrive_ = query(
      "redrive", "SELECT {schema}.redrive($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)");
  const PgQuery dismiss_ = query(
      "dismiss", "SELECT {schema}.dismiss($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)");
  const PgQuery edit_ = query(
      "edit", "SELECT {schema}.edit($1, operation => $2, by => $3, event => $4, payload_bytes => $5, headers => $6)");
  const PgQuery pause_ = query("pause", "SELECT {schema}.pause($1, $2, $3)");
  const PgQuery resume_ = query("resume", "SELECT {schema}.resume($1, $2, $3)");
  const PgQuery rewind_ = query("rewind",
                                "SELECT events, exact FROM {schema}.rewind($1, operation => $2, by => $3, "
                                "to_time => $4, to_event => $5, dry => $6)");
  const PgQuery forget_ =
      query("forget", "SELECT events, exact FROM {schema}.forget($1, operation => $2, by => $3, dry => $4)");
  const PgQuery history_ = query("history",
                                 "SELECT id::text, kind, by, destination, details::text, events, at "
                                 "FROM {schema}.operation ORDER BY at DESC LIMIT $1::integer");
};

}  // namespace

std::unique_ptr<Operator> postgres_operator(const PgDatabasePtr& database) {
  return std::make_unique<PgOperator>(database);
}

}  // namespace waybill
