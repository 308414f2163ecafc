#include "sink/stream/client_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace waybill::stream {
namespace {

// A message without data is not dispatched, but its id counts: that is how a client learns where it is when
// nothing that matches has come for a long time.
std::string heartbeat(const std::string& place, const std::string& announced) {
  return place == announced ? ":\n\n" : fmt::format(":\nid: {}\n\n", place);
}

}  // namespace

ClientSource::ClientSource(std::shared_ptr<Hub> hub, ClientPtr client, std::chrono::milliseconds heartbeat)
    : hub_(std::move(hub)), client_(std::move(client)), heartbeat_(heartbeat) {}

ClientSource::~ClientSource() {
  hub_->leave(client_);
}

std::optional<http::Response> ClientSource::open() {
  return hub_->open(client_);
}

http::Pull ClientSource::pull(std::span<char> out) {
  const auto now = std::chrono::steady_clock::now();
  if (!std::exchange(greeted_, true)) say("retry: 1000\n\n");
  std::size_t written = copy(out);
  Taken taken;
  while (written < out.size()) {
    taken = hub_->take(client_);
    if (!taken.frame) break;
    announced_ = taken.frame->place;
    rest_ = taken.frame->text;
    text_ = std::shared_ptr<const std::string>(taken.frame, &taken.frame->text);
    written += copy(out.subspan(written));
  }
  if (written == 0 && taken.ended) return {.end = true};
  const bool unplaced = announced_.empty() && !taken.place.empty();  // Cut off now, it would not know where it was.
  if (written == 0 && (unplaced || now >= silent_since_ + heartbeat_)) {
    say(heartbeat(taken.place, announced_));
    announced_ = taken.place;
    written = copy(out);
  }
  if (written == 0) return {.again = silent_since_ + heartbeat_};
  silent_since_ = now;
  return {.bytes = written};
}

void ClientSource::say(std::string text) {
  text_ = std::make_shared<const std::string>(std::move(text));
  rest_ = *text_;
}

std::size_t ClientSource::copy(std::span<char> out) {
  const auto size = std::min(out.size(), rest_.size());
  std::memcpy(out.data(), rest_.data(), size);
  rest_.remove_prefix(size);
  return size;
}

}  // namespace waybill::stream
