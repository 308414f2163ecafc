#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "waybill/event.h"
#include "waybill/time.h"

namespace waybill::rabbitmq {

// A message that was handed to a channel.
struct Sent {
  std::uint64_t ticket = 0;
  EventId id{};            // What a returned message is recognised by.
  std::string exchange{};  // Only where it is not the same for all.
  std::size_t body_bytes = 0;
  std::uint64_t end = 0;  // Its last byte's place in all that was ever sent through the connection.
  Steady since{};         // By the publisher's clock, which stands still while the broker holds us off.
  bool returned = false;  // It fits no queue.
};

// A ConfirmTracker knows what was published through a channel and is not confirmed yet. Messages are numbered 1, 2, …
// as the broker counts them; it confirms one, or all up to one ("multiple"), in any order. No I/O. Not thread-safe.
class ConfirmTracker {
 public:
  using Take = std::function<void(const Sent&)>;

  // Returns the message's number.
  std::uint64_t add(Sent sent);

  // Gives each message that a confirmation is about, and that had none before, to `take`, in the order of their
  // numbers. Number 0 with `multiple`: all there are. False, and nothing is taken, if the broker confirms what was
  // never sent.
  [[nodiscard]] bool confirm(std::uint64_t number, bool multiple, const Take& take);

  // The broker has given a message back. False if there is none that waits for its confirmation.
  bool give_back(const EventId& id);

  // Gives up on all of them, in the order of their numbers. If `take` throws, those it has not taken are still there.
  void abandon(const Take& take);

  std::size_t size() const { return waiting_; }
  bool empty() const { return waiting_ == 0; }
  // The one that has waited longest. REQUIRES: !empty()
  const Sent& oldest() const { return places_.front().sent; }

 private:
  struct Place {
    Sent sent{};
    bool confirmed = false;
  };

  void drop_confirmed();

  std::deque<Place> places_;  // The first is not confirmed.
  std::uint64_t first_ = 1;   // Its number.
  std::size_t waiting_ = 0;
  std::size_t returned_next_ = 0;  // Where the next returned message is looked for first: they come in order.
};

}  // namespace waybill::rabbitmq
