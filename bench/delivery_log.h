#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace waybill::bench {

// What a destination was given, and what it made of it.
struct Delivery {
  std::int64_t number = 0;                     // The event's version.
  std::chrono::steady_clock::time_point at{};  // By the clock of the machine: comparable between processes.
  bool delivered = false;
};

// Writes deliveries to a file of its own. What was flushed survives the kill of the process.
class DeliveryWriter {
 public:
  explicit DeliveryWriter(const std::string& path);
  ~DeliveryWriter();
  DeliveryWriter(const DeliveryWriter&) = delete;
  DeliveryWriter& operator=(const DeliveryWriter&) = delete;

  void add(std::int64_t number, bool delivered);
  void flush();

 private:
  const int file_;
  std::vector<std::int64_t> buffer_;
};

// Reads such a file while it grows.
class DeliveryReader {
 public:
  explicit DeliveryReader(std::string path) : path_(std::move(path)) {}

  // What was written since the last call.
  std::vector<Delivery> read();

 private:
  const std::string path_;
  std::size_t place_ = 0;
};

}  // namespace waybill::bench
