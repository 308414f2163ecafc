#include "sink/stream/frame.h"

#include <utility>

#include "base/assert.h"
#include "model/event_json.h"
#include "model/routing.h"

namespace waybill::stream {
namespace {

// No "event:" line: a browser would then call only the listeners of that very type, and `onmessage`, which
// everybody writes first, would stay silent. The type is in the data.
FramePtr frame_of(const Follower::Item& item) {
  WAYBILL_ASSERT(item.place.find_first_of("\r\n") == std::string::npos);
  Frame frame{.event = item.event.id, .place = item.place};
  frame.text = "id: " + item.place + "\ndata: ";
  append_event_json(frame.text, item.event);
  frame.text += "\n\n";
  return std::make_shared<const Frame>(std::move(frame));
}

}  // namespace

Frames frames_of(const Follower::Page& page, const Match& match, std::size_t bytes_max) {
  Frames result{.place = page.place, .more = page.more};
  std::size_t bytes = 0;
  for (const auto& item : page.items) {
    if (!matches(match, item.event)) continue;
    if (bytes >= bytes_max) {
      result.place = result.frames.back()->place;
      result.more = true;
      return result;
    }
    result.frames.push_back(frame_of(item));
    bytes += result.frames.back()->text.size();
  }
  return result;
}

}  // namespace waybill::stream
