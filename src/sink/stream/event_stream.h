#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "waybill/log.h"
#include "waybill/relay.h"

#include "http/server.h"
#include "sink/stream/readers.h"

namespace waybill {

struct StreamOptions {
  std::string name{};  // As a destination's: ^[a-z][a-z0-9_-]{0,62}$
  Match match{};       // Which events it serves.
  // What a client must send as "Authorization: Bearer TOKEN"; any other is answered with 401. Empty: whoever can
  // connect to the server may read, which is every user of the machine.
  std::string token{};
  // How long a client hears nothing at most.
  std::chrono::milliseconds heartbeat{15'000};
  // The newest events, kept in memory for all clients together. Larger: fewer of them ever fall behind.
  stream::RingLimits ring{};
};

// An EventStream serves the log over HTTP: GET /stream/NAME answers with Server-Sent Events that never end.
//
//   retry: 1000
//   id: <place>                   opaque; a browser sends it back as Last-Event-ID when it reconnects
//   data: {"id":…,"topic":…}      the event on one line, see model/event_json.h; no "event:" line, so
//   `onmessage`
//                                 gets everything: the type is in the data
//   :                             every 15 s without an event, with an "id:" line if the place has moved
//
// Where a client begins: after the place in `Last-Event-ID`, else in `?after=`, else `?from=beginning` or
// `?from=now` (the default). Nothing after the place is lost; a little may come again, so clients drop what
// they know by the event's id. A text that can be no place is answered with 400; a place that the store does
// not take, or that the log does not reach back to, with 410 and the reason. Until the store can be asked,
// the client waits.
//
// There is no lease, no progress kept here, and no limit of its own on clients (the server has one). It costs
// the store two followers at most, however many clients there are: one at the end of the log for all who are
// up to date, one that reads a page at a time, in turn, for those who are behind or too slow for the ring;
// both only while there are clients. The end of the log is looked at every 5 ms while events come, less and
// less often, down to every 250 ms, while none do; hint() makes it look at once.
//
// Made, added to a server and destroyed by one thread; hint() and clients() are anybody's. It may be
// destroyed before the server or after it: its clients are sent away, and later ones get a 503.
class EventStream {
 public:
  EventStream(StreamOptions options, const stream::MakeFollower& make_follower, const Log& log = {});
  ~EventStream();
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // REQUIRES: the server is not started yet.
  void add_to(http::Server& server);

  // There may be news.
  void hint() noexcept;

  std::size_t clients() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace waybill
