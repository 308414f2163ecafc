#pragma once

#include <memory>
#include <string>

#include "waybill/api.h"
#include "waybill/log.h"
#include "waybill/store.h"

namespace WAYBILL_API waybill {

// The newest version of the tables that this library knows.
inline constexpr int sqlite_schema_version = 3;

struct SqliteOptions {
  std::string path{};        // The application's own database file: the log lives in it.
  std::string state_path{};  // Ours, for progress; empty: the path with "-waybill" appended.
};

// A store in an SQLite file. The tables are made by Schema::migrate(), which also turns on the write-ahead
// log. Files that it makes are for their owner alone (0600). One relay at a time works on a file; a second one is
// refused until the first has left or its store object is gone.
std::unique_ptr<Store> sqlite_store(SqliteOptions options, Log log = {});

}  // namespace waybill
