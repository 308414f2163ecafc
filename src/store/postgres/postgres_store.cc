#include <utility>

#include <fmt/format.h>

#include "waybill/enqueue.h"
#include "waybill/error.h"

#include "enqueue/schema_name.h"
#include "store/postgres/database.h"

namespace waybill {
namespace {

class PgWriter final : public Writer {
 public:
  explicit PgWriter(PgDatabasePtr database)
      : database_(std::move(database)), connection_(database_->connect("writer", PgRight::enqueue)) {
    connection_.begin("");
  }
  std::vector<EventId> enqueue(std::span<const Event> events) override {
    return waybill::enqueue(connection_.raw(), events, {.schema = database_->options.schema});
  }
  void commit() override { connection_.commit(); }

 private:
  PgDatabasePtr database_;
  PgConnection connection_;
};

class PgStore final : public Store {
 public:
  explicit PgStore(PgDatabasePtr database) : database_(std::move(database)) {}

  std::unique_ptr<Schema> schema() override { return postgres_schema(database_); }
  std::unique_ptr<Writer> writer() override { return std::make_unique<PgWriter>(database_); }
  std::unique_ptr<Inspector> inspector() override { return postgres_inspector(database_); }
  std::unique_ptr<Membership> join(const RelayIdentity& relay) override {
    return postgres_membership(database_, relay);
  }
  std::unique_ptr<Session> connect(const RelayIdentity& relay, const std::string& destination) override {
    return postgres_session(database_, relay, destination);
  }
  std::unique_ptr<Follower> follow() override { return postgres_follower(database_); }
  std::unique_ptr<Operator> operate() override { return postgres_operator(database_); }
  std::unique_ptr<Upkeep> upkeep() override { return postgres_upkeep(database_); }
  std::string describe() const override { return describe_postgres(database_->options.url); }

 private:
  PgDatabasePtr database_;
};

}  // namespace

std::unique_ptr<Store> postgres_store(PostgresOptions options, Log log) {
  if (!is_schema_name(options.schema)) throw Error(Remedy::fix_config, fmt::format("schema {}", schema_name_rule));
  if (options.shards < 1 || options.shards > 256)
    throw Error(Remedy::fix_config, "shards is out of range; allowed: 1 to 256");
  if (options.retention < std::chrono::hours(1) || options.retention > std::chrono::hours(24 * 366 * 10))
    throw Error(Remedy::fix_config, "retention is out of range; allowed: 1h to 3660d");
  return std::make_unique<PgStore>(std::make_shared<const PgDatabase>(std::move(options), std::move(log)));
}

}  // namespace waybill
