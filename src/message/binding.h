#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/event.h"

#include "message/message.h"

namespace waybill {

// What a protocol makes of a message's headers. Data, no code: each is a constant below.
struct Binding {
  std::string_view name{};                       // For people.
  std::string_view attribute_prefix{};           // Of the headers that carry attributes of CloudEvents.
  bool lines = false;                            // A header is a line of ASCII text: attributes are percent-encoded.
  std::string_view content_type{};               // The header that carries the content type, if it has no other place;
  std::string_view data_type{};                  // and that of CloudEvents' binary mode.
  std::size_t headers_bytes_max = 0;             // All headers,
  std::size_t header_overhead = 0;               // each counted with this much for itself.
  std::span<const std::string_view> reserved{};  // What an event's own header must not be called: patterns.
};

namespace bindings {

// RabbitMQ reads these itself.
inline constexpr std::array<std::string_view, 2> amqp_reserved{"CC", "BCC"};
// The header frame must fit into one frame, of 128 KiB unless agreed otherwise.
inline constexpr std::size_t amqp_headers_bytes_max = std::size_t{126} * 1024;
inline constexpr Binding amqp{.name = "AMQP 0-9-1",
                              .attribute_prefix = "cloudEvents:",
                              .headers_bytes_max = amqp_headers_bytes_max,
                              .header_overhead = 6,
                              .reserved = amqp_reserved};
// The same, for readers that want names without a colon (JMS).
inline constexpr Binding amqp_underscore{.name = "AMQP 0-9-1",
                                         .attribute_prefix = "cloudEvents_",
                                         .headers_bytes_max = amqp_headers_bytes_max,
                                         .header_overhead = 6,
                                         .reserved = amqp_reserved};

// JetStream obeys what begins with "Nats-": one such header empties a stream. It takes 64 KiB of headers; the rest is
// for the sink's own.
inline constexpr std::array<std::string_view, 3> nats_reserved{"nats-*", "content-type", "waybill-encoded"};
inline constexpr Binding nats{.name = "NATS",
                              .attribute_prefix = "ce-",
                              .lines = true,
                              .content_type = "content-type",
                              .data_type = "ce-datacontenttype",
                              .headers_bytes_max = std::size_t{63} * 1024,
                              .header_overhead = 4,
                              .reserved = nats_reserved};

// What frames a request, or says who sends it. Servers take 16 KiB of headers, many only 8.
inline constexpr std::array<std::string_view, 14> http_reserved{
    "authorization", "connection", "content-encoding", "content-length",    "content-type",
    "expect",        "host",       "keep-alive",       "transfer-encoding", "te",
    "trailer",       "upgrade",    "webhook-*",        "waybill-encoded"};
inline constexpr Binding http{.name = "HTTP",
                              .attribute_prefix = "ce-",
                              .lines = true,
                              .headers_bytes_max = std::size_t{15} * 1024,
                              .header_overhead = 4,
                              .reserved = http_reserved};

}  // namespace bindings

// Appends the event's own headers (a JSON object) to `out`, each as it is; see encode_lines(). Returns why the protocol
// cannot carry one of them; empty if it can. `envelope_prefix`: how the names that the envelope itself adds begin.
std::string append_own_headers(HeaderList& out, std::string_view headers_json, const Binding& binding,
                               std::string_view envelope_prefix);

// The header that lists those whose values are percent-encoded.
inline constexpr std::string_view encoded_header = "waybill-encoded";

// Where headers are lines: percent-encodes, as CloudEvents does, the values that are no line of ASCII text, and adds a
// header with their names. All others stay as they are.
void encode_lines(HeaderList& headers, const Binding& binding);

// Undoes that with headers as they came; `encoded_header` goes.
void decode_lines(std::vector<Header>& headers);

// Why all of the headers are too large; empty if they are not.
std::string size_problem(const HeaderList& headers, const Binding& binding);

}  // namespace waybill
