#include "net/output.h"

#include <string_view>
#include <utility>

namespace waybill::net {
namespace {

// What has been written is cut off the front when there is this much of it.
constexpr std::size_t written_kept_max = std::size_t{1} << 20;

}  // namespace

bool Output::flush(Transport& transport) {
  const std::uint64_t before = written_;
  while (unwritten() > 0) {
    const std::size_t count = transport.write(std::string_view(bytes_).substr(start_));
    if (count == 0) break;
    start_ += count;
    written_ += count;
  }
  if (unwritten() == 0) {
    bytes_.clear();
    start_ = 0;
  } else if (start_ > written_kept_max) {
    bytes_.erase(0, std::exchange(start_, 0));
  }
  return written_ > before;
}

}  // namespace waybill::net
