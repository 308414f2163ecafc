#include <filesystem>

#include "waybill/sqlite.h"

#include "conformance/store_suite.h"
#include "store/memory/memory_store.h"

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

INSTANTIATE_TEST_SUITE_P(Stores, StoreSuite,
                         testing::Values(StoreMaker{"memory", [] { return memory_store({.shards = 4}); }},
                                         StoreMaker{"sqlite", fresh_sqlite}),
                         store_name);

}  // namespace
}  // namespace waybill
