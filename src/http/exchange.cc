#include "http/exchange.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/assert.h"
#include "http/server.h"

namespace waybill::http {
namespace {

constexpr std::size_t stream_block_bytes = 16 * 1024;

// A page may run, style and fetch what comes from here and nothing else; nobody may frame it; nothing is kept
// by caches; no type is guessed; no other origin may embed or be told of it.
constexpr std::array<std::pair<const char*, const char*>, 6> on_every_answer{{
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"X-Frame-Options", "DENY"},
    {"Cache-Control", "no-store"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return out;
}

std::string_view view(const char* text, std::size_t size) {
  return text == nullptr ? std::string_view() : std::string_view(text, size);
}

MHD_Result add_header(void* fields, MHD_ValueKind, const char* name, std::size_t name_size, const char* value,
                      std::size_t value_size) {
  auto& headers = *static_cast<Fields*>(fields);
  const auto [place, fresh] = headers.try_emplace(lower(view(name, name_size)), view(value, value_size));
  if (!fresh) place->second.append(", ").append(view(value, value_size));
  return MHD_YES;
}

MHD_Result add_argument(void* fields, MHD_ValueKind, const char* name, std::size_t name_size, const char* value,
                        std::size_t value_size) {
  static_cast<Fields*>(fields)->try_emplace(std::string(view(name, name_size)), view(value, value_size));
  return MHD_YES;
}

MHD_Result add_bytes(void* bytes, MHD_ValueKind, const char*, std::size_t name_size, const char*,
                     std::size_t value_size) {
  *static_cast<std::size_t*>(bytes) += name_size + value_size;
  return MHD_YES;
}

bool is_length_within(std::string_view text, std::size_t max) {
  std::size_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  return error == std::errc() && end == text.data() + text.size() && length <= max;
}

MHD_Response* with_headers(MHD_Response* answer, const Response& response) {
  WAYBILL_ASSERT(answer != nullptr);
  for (const auto& [name, value] : on_every_answer) MHD_add_response_header(answer, name, value);
  MHD_add_response_header(answer, "Content-Type", response.content_type.c_str());
  for (const auto& [name, value] : response.headers) MHD_add_response_header(answer, name.c_str(), value.c_str());
  return answer;
}

}  // namespace

Request read_request(MHD_Connection* connection, const char* method, const char* url) {
  Request request{.method = method, .path = url};
  MHD_get_connection_values_n(connection, MHD_HEADER_KIND, &add_header, &request.headers);
  MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, &add_argument, &request.query);
  return request;
}

std::optional<Response> over_limits(MHD_Connection* connection, const Request& request) {
  std::size_t bytes = 0;
  const int headers = MHD_get_connection_values_n(connection, MHD_HEADER_KIND, &add_bytes, &bytes);
  if (bytes > limits::header_bytes_max || static_cast<std::size_t>(headers) > limits::headers_max)
    return Response{.status = 431, .body = "At most 100 headers with 16 KiB in all.\n"};
  if (find(request.headers, "transfer-encoding"))
    return Response{.status = 411, .body = "State the body's length in a Content-Length header.\n"};
  const auto length = find(request.headers, "content-length");
  if (length && !is_length_within(*length, limits::body_bytes_max))
    return Response{.status = 413, .body = "A body has at most 1 MiB.\n"};
  return std::nullopt;
}

MHD_Response* whole_answer(const Response& response) {
  // MHD_RESPMEM_MUST_COPY: the body is only read.
  auto* bytes = const_cast<char*>(response.body.data());
  return with_headers(MHD_create_response_from_buffer(response.body.size(), bytes, MHD_RESPMEM_MUST_COPY), response);
}

MHD_Response* streamed_answer(const Response& head, MHD_ContentReaderCallback reader, void* reader_argument) {
  return with_headers(
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, stream_block_bytes, reader, reader_argument, nullptr), head);
}

}  // namespace waybill::http
