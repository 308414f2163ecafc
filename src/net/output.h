#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "net/transport.h"

namespace waybill::net {

// What is to be sent: appended at the end, and written from the front as far as the system takes it. One thread.
class Output {
 public:
  // To append to, and for nothing else.
  std::string& end() { return bytes_; }

  // All bytes that were ever appended, and how many of those the system has taken.
  std::uint64_t appended() const { return written_ + unwritten(); }
  std::uint64_t written() const { return written_; }
  std::size_t unwritten() const { return bytes_.size() - start_; }

  // True if the system has taken some. Throws as the transport does.
  bool flush(Transport& transport);

 private:
  std::string bytes_;
  std::size_t start_ = 0;  // What comes before is written.
  std::uint64_t written_ = 0;
};

}  // namespace waybill::net
