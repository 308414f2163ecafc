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

TEST(Table, NarrowsTheWidestColumnThatMayBeCut) {
  Table table({"ID", {"A", Fit::cut}, {"B", Fit::cut}});
  table.add({"1234567890", "abcdefghij", "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9"});
  EXPECT_EQ(
      "ID          A        B\n1234567890  abcdef\xE2\x80\xA6  "
      "\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\n",
      table.text(28));
  EXPECT_EQ(table.text(26), table.text(10)) << "no column is narrower than 6";
}

TEST(Table, ADetailHasALineOfItsOwn) {
  Table table({"A", "B"});
  table.add({"x", ""}, "what is\tto be said of it");
  table.add({"y", "z"});
  EXPECT_EQ("A  B\nx\n  what is?to be s\xE2\x80\xA6\ny  z\n", table.text(18));
}

}  // namespace
}  // namespace waybill::app
