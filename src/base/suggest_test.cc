#include "base/suggest.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

TEST(EditDistance, CountsChangesAndSwaps) {
  EXPECT_EQ(0U, edit_distance("attempts", "attempts"));
  EXPECT_EQ(1U, edit_distance("attemps", "attempts"));
  EXPECT_EQ(1U, edit_distance("stroe", "store"));
  EXPECT_EQ(3U, edit_distance("kitten", "sitting"));
  EXPECT_EQ(4U, edit_distance("", "lost"));
}

TEST(Suggestion, NamesTheNearestOrAll) {
  const std::vector<std::string> known{"attempts", "first_delay", "max_delay"};
  EXPECT_EQ("; did you mean 'attempts'?", suggestion("attemps", known));
  EXPECT_EQ("; did you mean 'max_delay'?", suggestion("maxdelay", known));
  EXPECT_EQ("; known here: attempts, first_delay, max_delay", suggestion("colour", known));
  EXPECT_EQ("; nothing is expected here", suggestion("colour", {}));
}

}  // namespace
}  // namespace waybill
