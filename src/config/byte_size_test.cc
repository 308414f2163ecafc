#include "config/byte_size.h"

#include <gtest/gtest.h>

namespace waybill::config {
namespace {

TEST(ByteSize, ReadsWholeNumbersOfOneUnit) {
  EXPECT_EQ(512, parse_byte_size("512B"));
  EXPECT_EQ(65'536, parse_byte_size("64KiB"));
  EXPECT_EQ(33'554'432, parse_byte_size("32MiB"));
  for (const auto* wrong : {"", "32", "MiB", "32MB", "32 MiB", "1.5MiB", "-1MiB", "99999999999GiB", "32MiBx"})
    EXPECT_FALSE(parse_byte_size(wrong)) << wrong;
}

TEST(ByteSize, WritesTheShortestText) {
  for (const auto* text : {"0B", "1B", "1023B", "1KiB", "32MiB", "3GiB", "1025KiB"})
    EXPECT_EQ(text, byte_size_text(*parse_byte_size(text)));
}

}  // namespace
}  // namespace waybill::config
