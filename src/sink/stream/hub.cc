#include "sink/stream/hub.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace waybill::stream {
namespace {

// How many events a client that was behind is known to have, so that they are not sent again.
constexpr std::size_t known_max = 1'024;

constexpr std::size_t page_bytes_least = std::size_t{16} * 1024;
constexpr std::size_t page_bytes_most = std::size_t{1024} * 1024;

}  // namespace

class Client {
 public:
  http::Wake wake{};
  enum class State { joining, behind, live, ended } state = State::joining;
  std::string place{};                      // After the last frame it took.
  bool opened = false;                      // Its place was found to be one.
  std::string refusal{};                    // Why it was not.
  std::uint64_t next = 0;                   // live: its number in the ring
  std::set<EventId> known{};                // What it got while it was behind and the head may still come upon,
  std::uint64_t known_until = 0;            // live: before this arrival of the head's.
  bool on_errand = false;                   // behind: a page is asked for
  std::deque<FramePtr> page{};              // behind: read, not taken yet
  std::size_t page_bytes = 0;               // of that page, as it was read
  std::string page_place{};                 // behind: after the page
  std::optional<std::uint64_t> joins_at{};  // behind: goes live after the page, at this number

  void end() {
    state = State::ended;
    wake();
  }
};

ClientPtr Hub::join(http::Wake wake, std::optional<std::string> place) {
  auto client = std::make_shared<Client>();
  client->wake = std::move(wake);
  const std::lock_guard lock(mutex_);
  if (closed_) {
    client->state = Client::State::ended;
    return client;
  }
  clients_.insert(client);
  if (!head_) head_waker_.wake();
  if (!place) {
    if (head_) join_head(*client);
    return client;
  }
  client->place = std::move(*place);
  if (const auto number = find_in_ring(client->place)) {
    go_live(*client, *number);
  } else {
    fall_behind(client);
  }
  return client;
}

void Hub::leave(const ClientPtr& client) {
  const std::lock_guard lock(mutex_);
  client->state = Client::State::ended;
  clients_.erase(client);
  std::erase(errands_, client);
  forget_page(*client);
}

std::optional<http::Response> Hub::open(const ClientPtr& client) {
  const std::lock_guard lock(mutex_);
  if (client->opened) return http::Response{.content_type = "text/event-stream"};
  if (client->state != Client::State::ended) return std::nullopt;
  if (client->refusal.empty())
    return http::Response{.status = 503, .body = "The stream has ended; come again later.\n"};
  return http::Response{.status = 410, .body = client->refusal + "\n"};
}

Taken Hub::take(const ClientPtr& client) {
  using enum Client::State;
  const std::lock_guard lock(mutex_);
  if (client->state == behind && !client->page.empty()) {
    auto frame = std::move(client->page.front());
    client->page.pop_front();
    client->place = frame->place;
    if (client->page.empty()) page_drained(client);
    return {.frame = std::move(frame)};
  }
  if (client->state == live && client->next < ring_first_) fall_behind(client);
  while (client->state == live && client->next < ring_end()) {
    auto frame = ring_[client->next++ - ring_first_];
    if (client->known.erase(frame->event) > 0) continue;
    client->place = frame->place;
    return {.frame = std::move(frame)};
  }
  if (client->state == live && head_arrivals_ >= client->known_until) {
    client->place = *head_;  // Not earlier: the client may be ahead of the head.
    client->known.clear();
  }
  return {.ended = client->state == ended, .place = client->place};
}

std::size_t Hub::clients() const {
  const std::lock_guard lock(mutex_);
  return clients_.size();
}

std::optional<std::string> Hub::head() const {
  const std::lock_guard lock(mutex_);
  return head_;
}

void Hub::start_head(std::string place) {
  const std::lock_guard lock(mutex_);
  WAYBILL_ASSERT(!head_ && ring_.empty());
  head_ = std::move(place);
  for (const auto& client : clients_) {
    if (client->state != Client::State::joining) continue;
    join_head(*client);
    client->wake();
  }
  if (!errands_.empty()) errand_waker_.wake();
}

void Hub::publish(Frames read) {
  const std::lock_guard lock(mutex_);
  WAYBILL_ASSERT(head_.has_value());
  head_ = std::move(read.place);
  if (!read.more) ++head_arrivals_;
  if (read.frames.empty()) return;
  for (auto& frame : read.frames) {
    ring_bytes_ += frame->text.size();
    ring_.push_back(std::move(frame));
  }
  while (ring_.size() > 1 && (ring_.size() > limits_.events_max || ring_bytes_ > limits_.bytes_max)) drop_oldest();
  for (const auto& client : clients_)
    if (client->state == Client::State::live) client->wake();
}

bool Hub::rest() {
  const std::lock_guard lock(mutex_);
  if (!clients_.empty()) return false;
  head_.reset();
  while (!ring_.empty()) drop_oldest();
  return true;
}

void Hub::break_off() {
  const std::lock_guard lock(mutex_);
  for (const auto& client : clients_) client->end();
  head_.reset();
  while (!ring_.empty()) drop_oldest();
}

std::optional<Errand> Hub::next_errand() {
  const std::lock_guard lock(mutex_);
  if (errands_.empty() || !head_ || pages_bytes_ >= limits_.pages_bytes_max) return std::nullopt;
  const auto behind = static_cast<std::size_t>(std::count_if(
      clients_.begin(), clients_.end(), [](const auto& client) { return client->state == Client::State::behind; }));
  Errand errand{.client = std::move(errands_.front())};
  errand.bytes_max =
      std::clamp(limits_.pages_bytes_max / std::max<std::size_t>(behind, 1), page_bytes_least, page_bytes_most);
  errands_.pop_front();
  errand.place = errand.client->place;
  errand.ring_end = ring_end();
  return errand;
}

void Hub::fulfil(const Errand& errand, Frames read) {
  const std::lock_guard lock(mutex_);
  auto& client = *errand.client;
  if (client.state != Client::State::behind) return;  // It left.
  client.on_errand = false;
  client.opened = true;
  if (!read.more) client.joins_at = errand.ring_end;
  for (const auto& frame : read.frames) client.known.insert(frame->event);
  while (client.known.size() > known_max) client.known.erase(client.known.begin());  // Ids begin with the time.
  client.page.assign(read.frames.begin(), read.frames.end());
  for (const auto& frame : read.frames) client.page_bytes += frame->text.size();
  pages_bytes_ += client.page_bytes;
  client.page_place = std::move(read.place);
  if (client.page.empty()) page_drained(errand.client);
  client.wake();
}

void Hub::refuse(const Errand& errand, const std::string& why) {
  const std::lock_guard lock(mutex_);
  if (errand.client->state != Client::State::behind) return;
  errand.client->refusal = why;
  errand.client->end();
}

void Hub::put_back(const Errand& errand) {
  const std::lock_guard lock(mutex_);
  if (errand.client->state == Client::State::behind) errands_.push_front(errand.client);
}

void Hub::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  for (const auto& client : clients_) client->end();
  head_waker_.wake();
  errand_waker_.wake();
}

void Hub::join_head(Client& client) {
  go_live(client, ring_end());
  client.place = *head_;
}

void Hub::go_live(Client& client, std::uint64_t number) {
  client.state = Client::State::live;
  client.opened = true;
  client.next = number;
}

void Hub::fall_behind(const ClientPtr& client) {
  WAYBILL_ASSERT(client->page.empty());
  client->state = Client::State::behind;
  if (std::exchange(client->on_errand, true)) return;
  errands_.push_back(client);
  errand_waker_.wake();
}

void Hub::forget_page(Client& client) {
  const bool was_full = pages_bytes_ >= limits_.pages_bytes_max;
  pages_bytes_ -= std::exchange(client.page_bytes, 0);
  client.page.clear();
  if (was_full && !errands_.empty()) errand_waker_.wake();
}

void Hub::page_drained(const ClientPtr& client) {
  forget_page(*client);
  client->place = client->page_place;
  const auto number = std::exchange(client->joins_at, std::nullopt);
  if (!number || *number < ring_first_) return fall_behind(client);
  go_live(*client, *number);
  client->known_until = head_arrivals_ + 2;  // The next one may have begun before the page was read.
}

std::optional<std::uint64_t> Hub::find_in_ring(const std::string& place) const {
  if (head_ && *head_ == place) return ring_end();
  const auto found = std::find_if(ring_.rbegin(), ring_.rend(), [&](const auto& f) { return f->place == place; });
  if (found == ring_.rend()) return std::nullopt;
  return ring_end() - static_cast<std::uint64_t>(found - ring_.rbegin());
}

void Hub::drop_oldest() {
  ring_bytes_ -= ring_.front()->text.size();
  ring_.pop_front();
  ++ring_first_;
}

}  // namespace waybill::stream
