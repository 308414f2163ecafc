#include <fmt/format.h>

#include "store/sqlite/files.h"
namespace waybill {
namespace {
class U final : public Upkeep {
  Cleaned clean(const CleanOptions& /*options*/) override { return {}; }
  Anchored anchor(const Operation& /*operation*/, bool /*dry*/) override { return {}; }
};
}  // namespace
std::unique_ptr<Upkeep> sqlite_upkeep(const SqliteFilesPtr&) {
  return std::make_unique<U>();
}
}  // namespace waybill
