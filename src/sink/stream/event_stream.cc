#include "sink/stream/event_stream.h"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "base/assert.h"
#include "base/same_secret.h"
#include "sink/stream/client_source.h"

namespace waybill {
namespace {

using stream::CatchUpReader;
using stream::ClientSource;
using stream::HeadReader;
using stream::Hub;

// Most of what a request's headers may have in all. PostgreSQL's places name the transactions that were open: two to
// four bytes for each.
constexpr std::size_t place_bytes_max = http::limits::header_bytes_max * 3 / 4;

http::Response bad_request(const std::string& text) {
  return {.status = 400, .body = text + "\n"};
}

// Could a store have given it out? "now" is what followers take for "no place yet".
bool may_be_place(std::string_view text) {
  return text != "now" && text.size() <= place_bytes_max &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

// What a client gets that may not read; nothing if it may.
std::optional<http::Response> refusal_without(const std::string& token, const http::Request& request) {
  constexpr std::string_view scheme = "bearer ";
  if (token.empty()) return std::nullopt;
  const auto shown = http::find(request.headers, "authorization").value_or("");
  const bool bearer = shown.size() > scheme.size() && std::equal(scheme.begin(), scheme.end(), shown.begin(),
                                                                 [](char a, char b) { return a == (b | 0x20); });
  if (bearer && same_secret(shown.substr(scheme.size()), token)) return std::nullopt;
  return http::Response{.status = 401,
                        .body = "This stream wants its token: Authorization: Bearer TOKEN.\n",
                        .headers = {{"WWW-Authenticate", "Bearer"}}};
}

// Where a client wants to begin, as Hub::join takes it, or what is wrong with that.
std::variant<http::Response, std::optional<std::string>> start_of(const http::Request& request) {
  auto place = http::find(request.headers, "last-event-id").value_or("");
  // A reconnecting browser repeats its first address: the header is newer.
  if (place.empty()) place = http::find(request.query, "after").value_or("");
  if (!place.empty()) {
    if (!may_be_place(place)) return bad_request("That is no place in the log; give the id of an event as it came.");
    return std::optional(std::string(place));
  }
  const auto from = http::find(request.query, "from").value_or("now");
  if (from == "now") return std::optional<std::string>();
  if (from == "beginning") return std::optional(std::string());
  return bad_request("'from' is 'beginning' or 'now'.");
}

}  // namespace

class EventStream::Impl {
 public:
  Impl(StreamOptions options, const stream::MakeFollower& make, const Log& log)
      : options_(std::move(options)),
        hub_(std::make_shared<Hub>(options_.ring)),
        head_(options_.name, *hub_, make, options_.match, log),
        catch_up_(options_.name, *hub_, make, options_.match, log),
        head_thread_([this](const std::stop_token& stop) { head_.run(stop); }),
        catch_up_thread_([this](const std::stop_token& stop) { catch_up_.run(stop); }) {
    WAYBILL_ASSERT(!options_.name.empty());
  }
  ~Impl() {
    head_thread_.request_stop();
    catch_up_thread_.request_stop();
    hub_->close();
  }

  void add_to(http::Server& server) {
    // The hub is shared: a client's answer may outlive this.
    server.route("GET", "/stream/" + options_.name,
                 [hub = hub_, heartbeat = options_.heartbeat,
                  token = options_.token](const http::Request& request) -> http::Answer {
                   if (auto refused = refusal_without(token, request)) return std::move(*refused);
                   auto start = start_of(request);
                   if (auto* wrong = std::get_if<http::Response>(&start)) return std::move(*wrong);
                   auto client = hub->join(request.wake, std::get<std::optional<std::string>>(std::move(start)));
                   return std::make_unique<ClientSource>(hub, std::move(client), heartbeat);
                 });
  }

  void hint() { hub_->head_waker().wake(); }
  std::size_t clients() const { return hub_->clients(); }

 private:
  const StreamOptions options_;
  const std::shared_ptr<Hub> hub_;
  HeadReader head_;
  CatchUpReader catch_up_;
  std::jthread head_thread_;
  std::jthread catch_up_thread_;
};

EventStream::EventStream(StreamOptions options, const stream::MakeFollower& make_follower, const Log& log)
    : impl_(std::make_unique<Impl>(std::move(options), make_follower, log)) {}
EventStream::~EventStream() = default;

void EventStream::add_to(http::Server& server) {
  impl_->add_to(server);
}

void EventStream::hint() noexcept {
  impl_->hint();
}

std::size_t EventStream::clients() const {
  return impl_->clients();
}

}  // namespace waybill
