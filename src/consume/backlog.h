#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "waybill/consume.h"
#include "waybill/time.h"

namespace waybill::consume {

// A message that has come and is not settled.
struct Waiting {
  std::uint64_t ticket = 0;
  Delivery delivery{};
  std::string unreadable{};  // Why it cannot be read; empty if it can.
  int tries = 0;             // that failed
  int failures = 0;          // of those, the ones that count
  bool was_cut = false;      // The connection to the database was lost when it was tried.
  std::uint64_t others = 0;  // How many had been handled when it last failed.
  Steady due{};              // Not to be tried before: when it came, or after a failure.
};

// A Backlog holds messages in the order in which they came, and says whose turn it is. No I/O. Not thread-safe.
class Backlog {
 public:
  // One that was forgotten comes again with what is known of its failures.
  void add(Waiting waiting, Steady now);

  // Of those that have none of their key before them, the one that has been due for the longest time: so neither those
  // that fail keep others from their turn, nor the other way round. None if none is due. Valid until the next call of
  // another kind.
  Waiting* next(Steady now);
  // When next() will have one; max() if it never will.
  Steady due() const;

  void settle(std::uint64_t ticket);
  // None of them is ours any more.
  void forget();

  std::size_t size() const { return waiting_.size(); }
  std::size_t retrying() const;

 private:
  // Where the one is whose turn is next, due or not; size() if there is none.
  std::size_t first() const;

  std::deque<Waiting> waiting_;
  std::map<std::pair<std::string, std::string>, Waiting> failed_;  // Of the forgotten, by tenant and id; no delivery.
};

}  // namespace waybill::consume
