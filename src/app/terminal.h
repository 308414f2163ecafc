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

// Columns of the terminal that the standard output is; 0 if it is none.
std::size_t terminal_width();

// A Table lines its cells up. Cells are made harmless.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  // REQUIRES: as many cells as titles.
  void add(std::vector<std::string> cells);
  std::string text() const { return text(0); }
  // With the last column cut so that lines have at most `width` columns; 0: nothing is cut.
  std::string text(std::size_t width) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace waybill::app
