#pragma once

// Stops the process on a mistake of ours, in every build: going on would risk events. Never for outside
// input.
#define WAYBILL_ASSERT(condition) \
  (static_cast<bool>(condition) ? void(0) : ::waybill::assertion_failed(#condition, __FILE__, __LINE__))

namespace waybill {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}  // namespace waybill
