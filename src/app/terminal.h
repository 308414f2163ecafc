#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace waybill::app {

// Writes data: to the standard output, all of it. Throws Error if it cannot.
void print(std::string_view text);

// Writes a message for people: "waybill: …" to the standard error output, one line for each of `text`.
void say(std::string_view text);

// As say(), for what is good to know and no error; nothing after be_quiet().
void note(std::string_view text);
void be_quiet();
bool is_quiet();

enum class Colour { none, red, yellow, green };

// The text in that colour; without, if the standard output is no terminal or NO_COLOR is set.
std::string paint(Colour colour, std::string_view text);

// The text without what would move a terminal's cursor or change its colours.
std::string harmless(std::string_view text);

// How wide a table may be: as the terminal that the standard output is, or as COLUMNS says; 80 if neither tells.
std::size_t table_width();

// A column of a Table. One that may be cut is narrowed where lines would be too long, down to `least` or its title; the
// others hold numbers, ids and fixed words.
enum class Fit { whole, cut };
struct Column {
  Column(const char* the_title, Fit the_fit = Fit::whole, std::size_t the_least = 6)
      : title(the_title), fit(the_fit), least(the_least) {}

  std::string title;
  Fit fit;
  std::size_t least;
};

// A Table lines its cells up in lines of at most table_width(). Cells are made harmless.
class Table {
 public:
  explicit Table(std::vector<Column> columns);
  // REQUIRES: as many cells as columns. `detail` follows on a line of its own, cut at its end; empty: no such line.
  void add(std::vector<std::string> cells, std::string_view detail = {});
  std::string text() const { return text(table_width()); }
  // The widest column that may be cut is narrowed first, none below 6 columns or its title. Where that is not enough
  // the lines are longer than `width`.
  std::string text(std::size_t width) const;

 private:
  struct Row {
    std::vector<std::string> cells{};
    std::string detail{};
  };
  std::vector<std::size_t> widths(std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;  // The first has the titles.
};

}  // namespace waybill::app
