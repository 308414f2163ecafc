#include "delivery_log.h"

#include <fstream>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

namespace waybill::bench {
namespace {

// A record: number, nanoseconds, delivered.
constexpr std::size_t fields = 3;

}  // namespace

DeliveryWriter::DeliveryWriter(const std::string& path)
    : file_(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)) {
  if (file_ < 0) throw std::runtime_error("cannot write " + path);
}

DeliveryWriter::~DeliveryWriter() {
  ::close(file_);
}

void DeliveryWriter::add(std::int64_t number, bool delivered) {
  const auto now = std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch());
  buffer_.insert(buffer_.end(), {number, now.count(), delivered ? 1 : 0});
}

void DeliveryWriter::flush() {
  const std::size_t bytes = buffer_.size() * sizeof(std::int64_t);
  if (::write(file_, buffer_.data(), bytes) != static_cast<ssize_t>(bytes))
    throw std::runtime_error("cannot write deliveries");
  buffer_.clear();
}

std::vector<Delivery> DeliveryReader::read() {
  std::ifstream file(path_, std::ios::binary);
  if (!file.seekg(0, std::ios::end)) return {};  // Not begun yet.
  const auto end = static_cast<std::size_t>(file.tellg());
  const std::size_t count = (end - place_) / (fields * sizeof(std::int64_t));  // A kill may have cut the last one off.
  std::vector<std::int64_t> words(count * fields);
  const std::size_t bytes = words.size() * sizeof(std::int64_t);
  file.seekg(static_cast<std::streamoff>(place_));
  file.read(reinterpret_cast<char*>(words.data()), static_cast<std::streamsize>(bytes));
  if (!file) throw std::runtime_error("cannot read " + path_);
  place_ += bytes;
  std::vector<Delivery> deliveries;
  deliveries.reserve(count);
  for (std::size_t i = 0; i < words.size(); i += fields)
    deliveries.push_back({.number = words[i],
                          .at = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(words[i + 1])),
                          .delivered = words[i + 2] != 0});
  return deliveries;
}

}  // namespace waybill::bench
