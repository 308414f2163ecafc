#include "sink/nats/ack.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace waybill::nats {
namespace {

using Kind = Outcome::Kind;

// Numbers of JetStream's errors (server/errors.json of nats-server).
constexpr int error_message_too_large = 10054;
constexpr int error_another_stream = 10060;
constexpr int error_store_failed = 10077;
constexpr int error_headers_too_large = 10097;
constexpr int error_sealed = 10109;

bool take(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// {"stream":"ORDERS", "seq":42}: what nearly every ack is. No need to take it apart.
bool is_plain(std::string_view text) {
  if (!take(text, R"({"stream":")")) return false;
  const auto end = text.find_first_of("\"\\");
  if (end == std::string_view::npos || end == 0 || text[end] != '"') return false;
  text.remove_prefix(end);
  if (!take(text, R"(", "seq":)") && !take(text, R"(","seq":)")) return false;
  if (text.size() < 2 || text.back() != '}' || text.front() == '0') return false;
  text.remove_suffix(1);
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

template <typename T>
T member(const nlohmann::json& object, const char* name, T fallback) {
  const auto found = object.find(name);
  if (found == object.end()) return fallback;
  try {
    return found->get<T>();
  } catch (const nlohmann::json::exception&) {
    return fallback;
  }
}

Refusal misaddressed(std::string what, bool others_arrive) {
  return {others_arrive ? Kind::retry : Kind::unavailable, std::move(what)};
}

}  // namespace

Ack read_ack(std::string_view json) {
  if (is_plain(json)) return {.stored = true};
  const auto parsed = nlohmann::json::parse(json, nullptr, false);
  if (!parsed.is_object()) return {.readable = false};
  if (const auto error = parsed.find("error"); error != parsed.end() && error->is_object())
    return {.status = member(*error, "code", 0),
            .error = member(*error, "err_code", 0),
            .description = member(*error, "description", std::string("no reason given")),
            .stream = member(parsed, "stream", std::string())};
  if (member(parsed, "stream", std::string()).empty() || member<std::uint64_t>(parsed, "seq", 0) == 0)
    return {.readable = false};
  return {.stored = true, .duplicate = member(parsed, "duplicate", false)};
}

Refusal refusal(const Ack& ack, std::string_view subject, bool others_arrive) {
  if (!ack.readable)
    return {Kind::unknown,
            fmt::format("the answer to subject {} is no JetStream ack; does something else than a stream "
                        "answer there?",
                        subject)};
  const std::string said = fmt::format("stream {}, subject {}: {} ({}/{})", ack.stream.empty() ? "?" : ack.stream,
                                       subject, ack.description, ack.status, ack.error);
  switch (ack.error) {
    case error_message_too_large:
      return {Kind::rejected, said + "; raise the stream's max_msg_size"};
    case error_headers_too_large:
      return {Kind::rejected, said};
    case error_another_stream:
      return misaddressed(said + "; another stream takes this subject than 'stream' says", others_arrive);
    case error_sealed:
      return {Kind::unavailable, said + "; a sealed stream takes nothing any more: name another one"};
    case error_store_failed:
      if (ack.description.find("per subject") != std::string::npos) return misaddressed(said, others_arrive);
      return {Kind::unavailable, said + "; it is full, or cannot write: raise its limits, or take something out"};
    default:
      // 5xx: the server's own trouble, such as a cluster without a leader. 4xx: something about this message.
      return {ack.status >= 400 && ack.status < 500 ? Kind::retry : Kind::unavailable, said};
  }
}

Refusal refusal_by_nobody(std::string_view subject, bool others_arrive) {
  return misaddressed(
      fmt::format("no stream takes subject {}, or JetStream is away (no responders); add the subject to "
                  "a stream, or make one with create = true",
                  subject),
      others_arrive);
}

}  // namespace waybill::nats
