#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "waybill/database.h"
#include "waybill/postgres.h"
#include "waybill/sqlite.h"

#include "support/tmp_pgbouncer.h"
#include "support/tmp_postgres.h"

namespace waybill {

// A fresh, migrated database of each kind: a server's, directly and through a pooler in transaction mode; and a file.
class DatabaseTest : public testing::TestWithParam<std::string> {
 protected:
  DatabaseTest() = default;
  ~DatabaseTest() override {
    db.reset();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  bool sqlite() const { return GetParam() == "sqlite"; }
  // A table of ours, by its name.
  std::string table(const std::string& name) const { return (sqlite() ? "waybill_" : "waybill.") + name; }
  std::int64_t count(const std::string& from) { return db->run("SELECT count(*) FROM " + from).integer(0, 0); }
  std::string value(const std::string& sql) {
    const Rows rows = db->run(sql);
    return rows.empty() || rows.null(0, 0) ? "" : rows.text(0, 0);
  }

 private:
  std::string make() {
    if (sqlite()) {
      static int number = 0;
      folder_ = std::filesystem::path(testing::TempDir()) /
                ("waybill-service-" + std::to_string(::getpid()) + "-" + std::to_string(++number));
      std::filesystem::create_directories(folder_);
      const std::string path = (folder_ / "app.db").string();
      sqlite_store({.path = path})->schema()->migrate();
      return "sqlite:" + path;
    }
    const std::string direct = TmpPostgres::shared().fresh_database();
    postgres_store({.url = direct})->schema()->migrate();
    if (GetParam() == "postgres") return direct;
    static TmpPgBouncer pooler(TmpPostgres::shared().port());
    return pooler.url(direct.substr(direct.rfind('/') + 1));
  }

  std::filesystem::path folder_;

 protected:
  const std::string url = make();
  std::unique_ptr<Connection> db = connect(url);
};

// What to do about the Error that the call throws.
inline Remedy refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.remedy();
  }
  ADD_FAILURE() << "it was not refused";
  return Remedy::unknown;
}

inline const auto every_database = testing::Values("postgres", "pooled", "sqlite");
inline std::string database_name(const testing::TestParamInfo<std::string>& database) {
  return database.param;
}

}  // namespace waybill
