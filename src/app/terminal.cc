#include "app/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "waybill/error.h"

#include "base/assert.h"

namespace waybill::app {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool coloured() {
  const char* no_color = std::getenv("NO_COLOR");
  return (no_color == nullptr || *no_color == '\0') && ::isatty(STDOUT_FILENO) == 1;
}

// Columns that UTF-8 text takes, about: one for each code point.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

// The first `columns` of the text; if that is not all of it, with a sign for the rest.
std::string cut(const std::string& text, std::size_t columns) {
  if (width(text) <= columns) return text;
  std::size_t end = 0;
  for (std::size_t seen = 0; end < text.size(); ++end)
    if ((static_cast<unsigned char>(text[end]) & 0xC0U) != 0x80U && ++seen == columns) break;
  return text.substr(0, end) + "…";
}

}  // namespace

void print(std::string_view text) {
  if (!write_all(STDOUT_FILENO, text))
    throw Error(Remedy::unknown, fmt::format("cannot write to the standard output: {}", std::strerror(errno)));
}

void say(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const auto end = text.find('\n');
    lines += fmt::format("waybill: {}\n", harmless(text.substr(0, end)));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  write_all(STDERR_FILENO, lines);  // If that fails, there is nobody left to tell.
}

namespace {
bool quiet = false;
}

void be_quiet() {
  quiet = true;
}

bool is_quiet() {
  return quiet;
}

void note(std::string_view text) {
  if (!quiet) say(text);
}

std::size_t terminal_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) != 1 || ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

std::string paint(Colour colour, std::string_view text) {
  static const bool enabled = coloured();
  if (!enabled || colour == Colour::none) return std::string(text);
  const int code = colour == Colour::red ? 31 : colour == Colour::yellow ? 33 : 32;
  return fmt::format("\x1b[{}m{}\x1b[0m", code, text);
}

std::string harmless(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) ++i;
    if (c < 0x20 || c == 0x7F || c1) {
      out += '?';
    } else {
      out += text[i];
    }
  }
  return out;
}

Table::Table(std::vector<std::string> titles) {
  rows_.push_back(std::move(titles));
}

void Table::add(std::vector<std::string> cells) {
  WAYBILL_ASSERT(cells.size() == rows_.front().size());
  for (auto& cell : cells) cell = harmless(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::text(std::size_t width_max) const {
  std::vector<std::size_t> widths(rows_.front().size(), 0);
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  std::size_t before_last = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) before_last += widths[i] + 2;
  // A column too narrow to read helps nobody: then the terminal may wrap it.
  constexpr std::size_t readable = 16;
  const bool cuts = width_max >= before_last + readable;
  std::string out;
  for (const auto& row : rows_) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      out += cuts && i + 1 == row.size() ? cut(row[i], width_max - before_last) : row[i];
      if (i + 1 < row.size()) out.append(widths[i] - width(row[i]) + 2, ' ');
    }
    out += '\n';
  }
  return out;
}

}  // namespace waybill::app
