#pragma once

#include <chrono>

namespace waybill::consume {

// How long to wait after the `failures`th failure in a row: at most twice as long as after the one before, `most` in
// the end, and not all at the same moment: at least half of that. REQUIRES: failures >= 1
std::chrono::milliseconds delay_after(int failures, std::chrono::milliseconds first, std::chrono::milliseconds most);

}  // namespace waybill::consume
