#include "app/terminal.h"

#include <gtest/gtest.h>

namespace waybill::app {
namespace {

TEST(Harmless, LeavesNothingThatMovesATerminal) {
  EXPECT_EQ("a?[31mb", harmless("a\x1b[31mb"));
  EXPECT_EQ("a?b?c", harmless("a\nb\x7f"
                              "c"));
  EXPECT_EQ("?31m", harmless("\xC2\x9B"
                             "31m"));
  EXPECT_EQ("\xC3\xA9 \xC2\xA0", harmless("\xC3\xA9 \xC2\xA0"));
}

TEST(Table, LinesUpByCharacters) {
  Table table({"A", "B"});
  table.add({"\xC3\xA9\xC3\xA9", "1"});
  table.add({"x", "2\n"});
  EXPECT_EQ("A   B\n\xC3\xA9\xC3\xA9  1\nx   2?\n", table.text());
}

TEST(Table, CutsTheLastColumnToTheTerminal) {
  Table table({"A", "B"});
  table.add({"x", "12345678901234567890"});
  table.add({"y", "\xC3\xA9\xC3\xA9"});
  EXPECT_EQ("A  B\nx  123456789012345\xE2\x80\xA6\ny  \xC3\xA9\xC3\xA9\n", table.text(19));
  EXPECT_EQ(table.text(), table.text(10)) << "too narrow for anything";
}

}  // namespace
}  // namespace waybill::app
