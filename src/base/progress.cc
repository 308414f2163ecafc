#include "waybill/progress.h"

#include <algorithm>
#include <chrono>
#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

namespace waybill {
namespace {

constexpr std::int64_t bar_width = 30;
constexpr std::int64_t pause_ms = 100;

}  // namespace

std::string grouped(std::int64_t number) {
  const std::string digits = fmt::format("{}", number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string progress_text(std::int64_t done, std::int64_t of) {
  if (of == 0) return grouped(done) + " …";
  of = std::max(of, done);
  return fmt::format("[{:.<{}}] {}/{}", std::string(static_cast<std::size_t>(bar_width * done / of), '#'), bar_width,
                     grouped(done), grouped(of));
}

ProgressBar::ProgressBar(bool wanted) : shown_(wanted && ::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (shown_) std::cerr << "\r\x1b[K" << std::flush;
}

void ProgressBar::show(std::int64_t done, std::int64_t of) {
  if (!shown_) return;
  const auto now = std::chrono::steady_clock::now().time_since_epoch() / std::chrono::milliseconds(1);
  if (now < next_ && (of == 0 || done < of)) return;
  next_ = now + pause_ms;
  // The cursor goes back to the beginning, so that a line of the log does not stand behind the bar.
  std::cerr << fmt::format("\r{}\x1b[K\r", progress_text(done, of)) << std::flush;
}

}  // namespace waybill
