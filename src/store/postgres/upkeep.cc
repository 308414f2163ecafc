#include "waybill/error.h"

#include "store/postgres/database.h"

namespace waybill {
namespace {

class PgUpkeep final : public Upkeep {
 public:
  Cleaned clean(const CleanOptions& /*options*/) override { throw Error(Remedy::fix_config, "not there yet"); }
  Anchored anchor(const Operation& /*operation*/, bool /*dry*/) override {
    throw Error(Remedy::fix_config, "not there yet");
  }
};

}  // namespace

std::unique_ptr<Upkeep> postgres_upkeep(const PgDatabasePtr& /*database*/) {
  return std::make_unique<PgUpkeep>();
}

}  // namespace waybill
