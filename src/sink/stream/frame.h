#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "waybill/relay.h"
#include "waybill/store.h"

namespace waybill::stream {

// An event as it goes to a client: one message of the Server-Sent Events format, made once for all clients.
struct Frame {
  EventId event{};
  std::string place{};  // Resuming here brings what follows.
  std::string text{};
};
using FramePtr = std::shared_ptr<const Frame>;

// A stretch of the log, as far as it matches.
struct Frames {
  std::vector<FramePtr> frames{};
  std::string place{};  // After the stretch, also if nothing in it matched.
  bool more = false;    // There was more to read.
};

// The frames of a page's events that match; only the first of them if they take more than `bytes_max`, but at
// least one.
Frames frames_of(const Follower::Page& page, const Match& match, std::size_t bytes_max);

}  // namespace waybill::stream
