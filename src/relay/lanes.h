#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "relay/lane.h"

namespace waybill {

// The Lanes of one destination, by the tickets their events carry at the sink. A lane that is dropped while the sink
// still holds events of it departs: it lives on, out of sight, until the sink has answered for them. Not thread-safe.
class Lanes {
 public:
  Lane& open(const Opened& opened, const Lane::Options& options, Steady now);
  void drop(const Lane& lane);
  // The sink has let go of everything: nothing will be answered any more.
  void clear();

  std::size_t bytes() const;

  // A ticket for an event that is handed to the sink now.
  std::uint64_t ticket(const Lane& lane, Lane::Position position);
  struct Answered {
    Lane* lane = nullptr;  // None: the lane has departed, and with it the interest in the event.
    Lane::Position position = 0;
  };
  // The sink has answered for a ticket.
  Answered answered(std::uint64_t ticket);

  // At the sink, those of departed lanes included.
  std::size_t under_way() const { return under_way_; }

 private:
  std::uint32_t free_serial();

  std::map<std::uint32_t, std::unique_ptr<Lane>> by_serial_;
  struct Departed {
    std::unique_ptr<Lane> lane{};
    std::size_t unanswered = 0;
  };
  std::map<std::uint32_t, Departed> departed_;
  std::uint32_t last_serial_ = 0;
  std::size_t under_way_ = 0;
};

}  // namespace waybill
