#include "app/payload_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/event.h"

namespace waybill::app {
namespace {

// Input that is too large is read up to here, only to tell its size: it may have no end.
constexpr std::streamsize counted_bytes_max = std::streamsize{64} * 1024 * 1024;

// The size of what `stream` has left, up to counted_bytes_max.
std::streamsize count_rest(std::istream& stream) {
  std::streamsize count = 0;
  while (count < counted_bytes_max && stream) {
    stream.ignore(counted_bytes_max - count);
    count += stream.gcount();
  }
  return count;
}

[[noreturn]] void refuse_size(const std::string& path, std::istream& stream) {
  const std::streamsize rest = count_rest(stream);
  const std::size_t size = limits::payload_bytes_max + 1 + static_cast<std::size_t>(rest);
  throw Error(Remedy::fix_input,
              fmt::format("the payload from '{}' has {}{} bytes; at most {} are allowed: store it elsewhere and send a "
                          "reference",
                          path, rest < counted_bytes_max ? "" : "more than ", size, limits::payload_bytes_max));
}

}  // namespace

std::string read_payload(const std::string& path) {
  const std::size_t bytes_max = limits::payload_bytes_max + 1;  // One more shows that it is too large.
  std::string bytes(bytes_max, '\0');
  std::ifstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::istream& stream = path == "-" ? std::cin : file;
  if (stream) stream.read(bytes.data(), static_cast<std::streamsize>(bytes_max));
  if (!stream.eof() && !stream)
    throw Error(Remedy::fix_input, fmt::format("cannot read the payload from '{}': {}", path, std::strerror(errno)));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  if (bytes.size() == bytes_max) refuse_size(path, stream);
  return bytes;
}

}  // namespace waybill::app
