#pragma once

#include <cstdint>
#include <string>

#include "waybill/api.h"

namespace WAYBILL_API waybill {

// A bar on the standard error output while something lasts; nothing if that is no terminal.
//
//   ProgressBar bar;
//   projector.rebuild([&](std::int64_t done, std::int64_t of) { bar.show(done, of); });
class ProgressBar {
 public:
  explicit ProgressBar(bool wanted = true);
  // Takes it away again.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `of` 0: nobody knows, only what is done is shown. At most ten times a second.
  void show(std::int64_t done, std::int64_t of = 0);

 private:
  const bool shown_;
  std::int64_t next_ = 0;  // When it may be drawn again, in milliseconds of the monotonic clock.
};

// "[######........................] 204/1,204"
std::string progress_text(std::int64_t done, std::int64_t of);

// "1,204"
std::string grouped(std::int64_t number);

}  // namespace waybill
