#include "app/terminal.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

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

constexpr std::size_t gap = 2;  // between columns, and before a detail

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

std::size_t table_width() {
  winsize size{};
  if (::isatty(STDOUT_FILENO) == 1 && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  constexpr std::size_t usual = 80;
  const char* columns = std::getenv("COLUMNS");
  std::size_t width = 0;
  if (columns == nullptr || std::from_chars(columns, columns + std::strlen(columns), width).ec != std::errc{} ||
      width == 0)
    return usual;
  return width;
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

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  rows_.push_back({.cells = std::move(titles)});
}

void Table::add(std::vector<std::string> cells, std::string_view detail) {
  WAYBILL_ASSERT(cells.size() == columns_.size());
  for (auto& cell : cells) cell = harmless(cell);
  rows_.push_back({.cells = std::move(cells), .detail = harmless(detail)});
}

std::vector<std::size_t> Table::widths(std::size_t width_max) const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (const Row& row : rows_)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], width(row.cells[i]));
  std::size_t total = gap * (widths.size() - 1);
  for (const std::size_t each : widths) total += each;
  for (; total > width_max; --total) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i)
      if (columns_[i].fit == Fit::cut && widths[i] > std::max(columns_[i].least, width(columns_[i].title)) &&
          (widest == nullptr || widths[i] > *widest))
        widest = &widths[i];
    if (widest == nullptr) break;
    --*widest;
  }
  return widths;
}

std::string Table::text(std::size_t width_max) const {
  const auto widths = this->widths(width_max);
  std::string out;
  for (const Row& row : rows_) {
    std::size_t blanks = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = cut(row.cells[i], widths[i]);
      if (!cell.empty()) out.append(std::exchange(blanks, 0), ' ') += cell;
      blanks += widths[i] - width(cell) + gap;
    }
    out += '\n';
    if (!row.detail.empty()) out.append(gap, ' ').append(cut(row.detail, std::max(width_max, gap + 1) - gap)) += '\n';
  }
  return out;
}

}  // namespace waybill::app
