#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "waybill/sink.h"

namespace waybill {

// Remembers what was delivered; may be asked by any thread.
class Deliveries {
 public:
  std::unique_ptr<Sink> sink() {
    return sink_from([this](const EventView& event) {
      const std::lock_guard lock(mutex_);
      const int number = std::stoi(std::string(event.payload.substr(1, event.payload.size() - 2)));
      ++total_;
      auto& first = firsts_[std::string(event.key)];
      if (first.empty() || number > first.back()) first.push_back(number);
      // One that was delivered before may come again; one that was skipped may not come late.
      else if (!std::binary_search(first.begin(), first.end(), number))
        ++out_of_order_;
      return Outcome::Kind::delivered;
    });
  }
  std::size_t distinct() {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& [key, numbers] : firsts_) count += numbers.size();
    return count;
  }
  std::map<std::string, std::vector<int>> firsts() {
    const std::lock_guard lock(mutex_);
    return firsts_;
  }
  int total() {
    const std::lock_guard lock(mutex_);
    return total_;
  }
  int out_of_order() {
    const std::lock_guard lock(mutex_);
    return out_of_order_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<int>> firsts_;
  int total_ = 0;
  int out_of_order_ = 0;
};

}  // namespace waybill
