#include "broker/nats/frames.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "message/text.h"

namespace waybill::nats {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{64} << 10;
constexpr std::string_view line_end = "\r\n";
constexpr std::string_view headers_begin = "NATS/1.0";
constexpr std::string_view blanks = " \t";

void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Remedy::retry, fmt::format("it does not speak NATS: {}; is the port right?", what));
}

std::string_view trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return text.substr(0, text.find_last_not_of(blanks) + 1);
}

// The first word, which is thereby taken off. REQUIRES: no blanks at the ends
std::string_view take_word(std::string_view& text) {
  const auto word = text.substr(0, text.find_first_of(blanks));
  text.remove_prefix(word.size());
  text.remove_prefix(std::min(text.find_first_not_of(blanks), text.size()));
  return word;
}

std::size_t size_of(std::string_view digits) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size()) refuse("a size is no number");
  return size;
}

// What follows the line of a message.
struct Sizes {
  std::size_t headers = 0;
  std::size_t all = 0;
};

// "subject sid [reply-to] [size of headers] size"
Sizes read_message_line(std::string_view line, bool with_headers, Frame& frame) {
  std::array<std::string_view, 5> words{};
  std::size_t count = 0;
  while (!line.empty() && count < words.size()) words[count++] = take_word(line);
  const std::size_t least = with_headers ? 4 : 3;
  if (!line.empty() || count < least || count > least + 1) refuse("the line of a message is not whole");
  frame.subject = words[0];
  std::from_chars(words[1].data(), words[1].data() + words[1].size(), frame.subscription);
  if (count > least) frame.reply_to = words[2];
  const Sizes sizes{.headers = with_headers ? size_of(words[count - 2]) : 0, .all = size_of(words[count - 1])};
  if (sizes.headers > sizes.all) refuse("a message is smaller than its headers");
  return sizes;
}

// "NATS/1.0 503 No Responders\r\n…"
void read_status(std::string_view headers, Frame& frame) {
  if (!headers.starts_with(headers_begin)) return;
  const auto line = trimmed(headers.substr(0, headers.find(line_end)).substr(headers_begin.size()));
  const char* const end = line.data() + std::min<std::size_t>(line.size(), 3);
  const char* const text = std::from_chars(line.data(), end, frame.status).ptr;
  frame.status_text = trimmed(line.substr(static_cast<std::size_t>(text - line.data())));
}

std::string_view without_first_line(std::string_view lines) {
  const auto end = lines.find(line_end);
  return end == std::string_view::npos ? std::string_view() : lines.substr(end + line_end.size());
}

std::string_view without_quotes(std::string_view text) {
  if (text.size() >= 2 && text.front() == '\'' && text.back() == '\'') return text.substr(1, text.size() - 2);
  return text;
}

// All of a frame but the body of a message, whose sizes it returns.
Sizes read_line(std::string_view line, Frame& frame) {
  using Kind = Frame::Kind;
  line = trimmed(line);
  const auto word = take_word(line);
  const auto is = [&](std::string_view name) { return same_letters(word, name); };
  const auto be = [&](Kind kind, std::string_view text = {}) {
    frame = {.kind = kind, .text = text};
    return Sizes{};
  };
  if (is("MSG") || is("HMSG")) {
    be(Kind::message);
    return read_message_line(line, word.size() == 4, frame);
  }
  if (is("PING")) return be(Kind::ping);
  if (is("PONG")) return be(Kind::pong);
  if (is("+OK")) return be(Kind::ok);
  if (is("INFO")) return be(Kind::info, line);
  if (is("-ERR")) return be(Kind::error, without_quotes(line));
  refuse("a line begins with no word of it");
}

}  // namespace

// --- Writing

void append_message(std::string& out, std::string_view subject, std::string_view inbox, std::uint64_t number,
                    const Message& message) {
  const std::size_t size = wire_size(message);
  out.append("HPUB ").append(subject).append(" ").append(inbox);
  append_number(out, number);
  out += ' ';
  append_number(out, size - message.body.size());
  out += ' ';
  append_number(out, size);
  out.append(line_end).append(headers_begin).append(line_end);
  for (std::size_t i = 0; i < message.headers.size(); ++i) {
    const auto header = message.headers[i];
    out.append(header.name).append(": ").append(header.value).append(line_end);
  }
  out.append(line_end).append(message.body).append(line_end);
}

void append_request(std::string& out, std::string_view subject, std::string_view reply_to, std::string_view body) {
  out.append("PUB ").append(subject).append(" ");
  if (!reply_to.empty()) out.append(reply_to).append(" ");
  append_number(out, body.size());
  out.append(line_end).append(body).append(line_end);
}

void append_subscription(std::string& out, std::string_view subject, std::uint64_t number) {
  out.append("SUB ").append(subject).append(" ");
  append_number(out, number);
  out.append(line_end);
}

void append_unsubscription(std::string& out, std::uint64_t number) {
  out.append("UNSUB ");
  append_number(out, number);
  out.append(line_end);
}

std::size_t wire_size(const Message& message) {
  constexpr std::size_t around_header = 4;  // ": " and the line's end
  return headers_begin.size() + line_end.size() + message.headers.bytes() + around_header * message.headers.size() +
         line_end.size() + message.body.size();
}

// --- Reading

std::vector<Header> read_headers(std::string_view lines) {
  std::vector<Header> headers;
  while (!lines.empty()) {
    const auto end = std::min(lines.find(line_end), lines.size());
    const auto line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + line_end.size(), lines.size()));
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0) continue;
    headers.push_back(
        {.name = std::string(line.substr(0, colon)), .value = std::string(trimmed(line.substr(colon + 1)))});
  }
  return headers;
}

FrameReader::FrameReader() : buffer_(buffer_bytes) {}

std::span<char> FrameReader::room() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  return std::span(buffer_).subspan(end_);
}

void FrameReader::filled(std::size_t count) {
  WAYBILL_ASSERT(count <= buffer_.size() - end_);
  end_ += count;
}

bool FrameReader::next(Frame& frame) {
  const std::string_view here(buffer_.data() + begin_, end_ - begin_);
  if (here.size() < needed_) return false;
  const auto line = here.find('\n', searched_);
  if (std::min(line, here.size()) > line_bytes_max) refuse("a line does not end");
  if (line == std::string_view::npos) {
    searched_ = here.size();
    return false;
  }
  const bool usual_end = line > 0 && here[line - 1] == '\r';
  const Sizes sizes = read_line(here.substr(0, usual_end ? line - 1 : line), frame);
  std::size_t whole = line + 1;
  if (frame.kind == Frame::Kind::message) {
    if (sizes.all > bytes_max_) refuse("a message is larger than any answer to us");
    whole += sizes.all + line_end.size();
    if (here.size() < whole) {
      searched_ = line;
      needed_ = whole;
      return false;
    }
    const auto body = here.substr(line + 1, sizes.all);
    if (here.substr(whole - line_end.size(), line_end.size()) != line_end) refuse("a message does not end");
    read_status(body.substr(0, sizes.headers), frame);
    frame.headers = without_first_line(body.substr(0, sizes.headers));
    frame.data = body.substr(sizes.headers);
  }
  begin_ += whole;
  searched_ = needed_ = 0;
  return true;
}

}  // namespace waybill::nats
