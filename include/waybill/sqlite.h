#pragma once

#include <memory>
#include <string>

#include "waybill/log.h"
#include "waybill/store.h"

namespace waybill {

// The newest version of the tables that this library knows.
inline constexpr int sqlite_schema_version = 2;

struct SqliteOptions {
  std::string path{};        // The application's own database file: the log lives in it.
  std::string state_path{};  // Ours, for progress; empty: the path with "-waybill" appended.
};

// A store in an SQLite file. The tables are made by Schema::migrate(), which also turns on the write-ahead
// log. One relay at a time works on a file; a second one is refused.
std::unique_ptr<Store> sqlite_store(SqliteOptions options, Log log = {});

}  // namespace waybill
