#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace waybill::app {

// Writes data: to the standard output, all of it. Throws Error if it cannot.
void print(std::string_view text);

// Writes a message for people: "waybill: …" to the standard error output, one line for each of `text`.
void say(std::string_view text);

enum class Colour { none, red, yellow, green };

// The text in that colour; without, if the standard output is no terminal or NO_COLOR is set.
std::string paint(Colour colour, std::string_view text);

// The text without what would move a terminal's cursor or change its colours.
std::string harmless(std::string_view text);

// A Table lines its cells up. Cells are made harmless.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);
  // REQUIRES: as many cells as titles.
  void add(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace waybill::app
