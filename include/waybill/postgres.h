#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "waybill/api.h"
#include "waybill/log.h"
#include "waybill/store.h"

namespace WAYBILL_API waybill {

// What to do about a server on another timeline: a standby that was promoted, a backup, or a copy of the server.
enum class Failover : std::uint8_t {
  stop,   // Nothing is sent until a person has looked (Upkeep::anchor).
  go_on,  // It is noted. For clusters with synchronous standbys, where a promoted one has everything.
};

struct PostgresOptions {
  std::string url;  // As libpq takes it: a postgresql:// URL or "host=… dbname=…"; PG* variables count.
  std::string schema = "waybill";  // ^[a-z_][a-z0-9_]{0,39}$
  // Fixed by the first migrate, ignored later: how many ways the log is split, and how long events are kept
  // at least.
  int shards = 16;
  std::chrono::hours retention{24 * 7};
  Failover failover = Failover::stop;
};

// The newest schema this library knows.
inline constexpr int postgres_schema_version = 6;

// A store in a PostgreSQL database (13 or later). Connects on use, not here. The tables are made by
// Schema::migrate().
std::unique_ptr<Store> postgres_store(PostgresOptions options, Log log = {});

}  // namespace waybill
