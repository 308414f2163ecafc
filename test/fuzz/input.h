#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "waybill/error.h"

// The entry point of every target, as libFuzzer calls it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace waybill::fuzz {

// A property that does not hold: the fuzzer keeps the input, and a replay ends with it.
inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

// Takes an input apart.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : rest_(reinterpret_cast<const char*>(data), size) {}

  std::uint8_t byte() {
    if (rest_.empty()) return 0;
    const auto first = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return first;
  }
  bool flag() { return (byte() & 1U) != 0; }
  // Up to the next line end, or all that is left.
  std::string line() {
    const auto end = rest_.find('\n');
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
    return text;
  }
  std::string_view rest() const { return rest_; }
  bool empty() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

// Does it; our own errors are answers as good as any. Everything else is a finding.
template <typename Doing>
bool accepts(const Doing& doing) {
  try {
    doing();
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Feeds bytes to a reader of frames in pieces, and takes every frame.
template <typename Reader, typename Frame, typename Take>
void feed(Reader& reader, std::string_view bytes, std::size_t piece, const Take& take) {
  Frame frame{};
  while (!bytes.empty()) {
    const auto room = reader.room();
    require(!room.empty());
    const auto part = bytes.substr(0, std::min({piece, room.size(), bytes.size()}));
    std::copy(part.begin(), part.end(), room.begin());
    reader.filled(part.size());
    bytes.remove_prefix(part.size());
    while (reader.next(frame)) take(frame);
  }
}

}  // namespace waybill::fuzz
