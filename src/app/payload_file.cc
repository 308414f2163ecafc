#include "app/payload_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iostream>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/event.h"

namespace waybill::app {

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
  return bytes;
}

}  // namespace waybill::app
