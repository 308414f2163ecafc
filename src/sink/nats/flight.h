#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "waybill/event.h"
#include "waybill/time.h"

namespace waybill::nats {

// An event on its way. The event outlives its outcome.
struct Parcel {
  const EventView* event = nullptr;
  std::uint64_t ticket = 0;
  std::uint64_t begin = 0;  // Of its message, in all the bytes of its connection; once it is sent.
};

// What was sent and has no ack yet. Each gets the next number, by which its ack will name it. Not thread-safe.
class Flight {
 public:
  // The number that the next one gets.
  std::uint64_t next_number() const { return first_ + sent_.size(); }
  void add(Parcel parcel, Steady now);

  // Takes it out; nothing if it was taken before.
  std::optional<Parcel> take(std::uint64_t number);
  const Parcel& oldest_parcel() const { return sent_.front().parcel; }
  // Takes out the oldest. REQUIRES: size() > 0
  Parcel take_oldest() { return *take(first_); }
  // Takes out those that `is_meant` is true for.
  template <typename IsMeant>
  std::vector<Parcel> take_if(const IsMeant& is_meant) {
    std::vector<Parcel> taken;
    for (Entry& entry : sent_) {
      if (!entry.open || !is_meant(entry.parcel)) continue;
      entry.open = false;
      --open_;
      taken.push_back(entry.parcel);
    }
    forget_taken();
    return taken;
  }

  std::size_t size() const { return open_; }
  // When the oldest was sent. REQUIRES: size() > 0
  Steady oldest() const { return sent_.front().at; }

 private:
  struct Entry {
    Parcel parcel{};
    Steady at{};
    bool open = true;
  };
  void forget_taken();

  std::deque<Entry> sent_;  // The first is open.
  std::uint64_t first_ = 1;
  std::size_t open_ = 0;
};

}  // namespace waybill::nats
