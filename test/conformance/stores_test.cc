#include <filesystem>

#include "waybill/memory.h"
#include "waybill/postgres.h"
#include "waybill/sqlite.h"

#include "conformance/store_suite.h"
#include "support/tmp_postgres.h"

namespace waybill {
namespace {

std::unique_ptr<Store> fresh_sqlite() {
  static int count = 0;
  const auto folder = std::filesystem::path(testing::TempDir()) /
                      ("waybill-" + std::to_string(::getpid()) + "-" + std::to_string(++count));
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  auto store = sqlite_store({.path = (folder / "app.db").string()});
  store->schema()->migrate();
  return store;
}

std::unique_ptr<Store> fresh_postgres() {
  auto store = postgres_store({.url = TmpPostgres::shared().fresh_database()});
  store->schema()->migrate();
  return store;
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreSuite,
                         testing::Values(StoreMaker{"memory", [] { return memory_store({.shards = 4}); }},
                                         StoreMaker{"sqlite", fresh_sqlite}, StoreMaker{"postgres", fresh_postgres}),
                         store_name);

}  // namespace
}  // namespace waybill
