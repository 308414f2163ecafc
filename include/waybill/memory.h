#pragma once

#include <memory>

#include "waybill/api.h"
#include "waybill/store.h"
#include "waybill/time.h"

namespace WAYBILL_API waybill {

struct MemoryOptions {
  int shards = 4;
};

// A store that lives in memory and dies with the process: for tests, ours and an application's. Its leases
// run out by `clock`, which must outlive it.
std::unique_ptr<Store> memory_store(MemoryOptions options = {}, const Clock& clock = system_clock());

}  // namespace waybill
