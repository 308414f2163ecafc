#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/waker.h"
#include "http/message.h"
#include "sink/stream/frame.h"

namespace waybill::stream {

class Client;
using ClientPtr = std::shared_ptr<Client>;

struct RingLimits {
  std::size_t events_max = 4'096;
  std::size_t bytes_max = 8 * 1024 * 1024;
  // What was read for clients that are behind, and they have not taken, for all of them together. When it is reached
  // nothing more is read for them until somebody has taken a page, or is gone.
  std::size_t pages_bytes_max = 32 * 1024 * 1024;
};

// What a client gets next.
struct Taken {
  FramePtr frame{};     // None: nothing yet, or
  bool ended = false;   // never more.
  std::string place{};  // If there is no frame: where the client is.
};

// A client that is behind, and where it wants to read on.
struct Errand {
  ClientPtr client{};
  std::string place{};
  std::uint64_t ring_end = 0;  // As the reading began.
  std::size_t bytes_max = 0;   // Of the page; one event more than that at most.
};

// The Hub is where the two readers of a stream and its clients meet.
//
// The head reader follows the end of the log and publishes what it reads into the ring, a bounded stretch of
// the newest frames. A *live* client keeps a number in the ring; a client that comes with an older place, or
// that the ring has run over, is *behind*: the other reader reads pages for it, one client after the other.
//
// How a client gets from behind to live without losing anything: an errand notes the ring's end before its
// page is read. If that page turns out to be the last (nothing committed before the reading was left out),
// then all that the ring held by then was committed by then, so the client has it; it goes on in the ring
// from the noted end. What the head read after that and the client got by the page already is known by the
// events' ids and left out.
//
// Thread-safe. Every operation is short; nothing is read or written under its lock.
class Hub {
 public:
  explicit Hub(RingLimits limits) : limits_(limits) {}

  // The clients' side. `place` nothing: from now on; empty: from the beginning of the log.
  ClientPtr join(http::Wake wake, std::optional<std::string> place);
  void leave(const ClientPtr& client);
  // Nothing: whether it can be served is not known yet. 200: it can.
  std::optional<http::Response> open(const ClientPtr& client);
  Taken take(const ClientPtr& client);
  std::size_t clients() const;

  // The head reader's side. The place it reads on from; nothing if it does not run.
  std::optional<std::string> head() const;
  void start_head(std::string place);
  void publish(Frames read);
  // Forgets the ring and where the head was, unless there are clients. True if it did.
  bool rest();
  // The log does not go on where the head was: every client must come again with its own place.
  void break_off();
  Waker& head_waker() { return head_waker_; }

  // The other reader's side. No errands until the head runs: there would be nothing to go live in.
  std::optional<Errand> next_errand();
  void fulfil(const Errand& errand, Frames read);
  void refuse(const Errand& errand, const std::string& why);
  void put_back(const Errand& errand);  // Not to be had now.
  Waker& errand_waker() { return errand_waker_; }

  // Ends every client, also those to come. Wakes both readers.
  void close();

 private:
  void join_head(Client& client);
  void go_live(Client& client, std::uint64_t number);
  void fall_behind(const ClientPtr& client);
  void page_drained(const ClientPtr& client);
  void forget_page(Client& client);
  std::optional<std::uint64_t> find_in_ring(const std::string& place) const;
  std::uint64_t ring_end() const { return ring_first_ + ring_.size(); }
  void drop_oldest();

  const RingLimits limits_;
  Waker head_waker_;
  Waker errand_waker_;

  mutable std::mutex mutex_;  // guards what follows, and every Client
  bool closed_ = false;
  std::set<ClientPtr> clients_;
  std::deque<ClientPtr> errands_;
  std::optional<std::string> head_;  // After the ring's last frame, and what did not match behind it.
  std::deque<FramePtr> ring_;
  std::uint64_t ring_first_ = 0;
  std::uint64_t head_arrivals_ = 0;  // How often the head had read all there was.
  std::size_t ring_bytes_ = 0;
  std::size_t pages_bytes_ = 0;
};

}  // namespace waybill::stream
