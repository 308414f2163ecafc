#include "store/postgres/snapshot.h"

#include <gtest/gtest.h>

namespace waybill {
namespace {

TEST(Snapshot, ReadsWhatPostgresWrites) {
  for (const char* text : {"3:3:", "100:200:", "100:200:100,150,199", "18446744073709551614:18446744073709551615:"}) {
    const auto snapshot = Snapshot::parse(text);
    ASSERT_TRUE(snapshot) << text;
    EXPECT_EQ(text, snapshot->to_string());
  }
}

TEST(Snapshot, RefusesWhatIsNone) {
  for (const char* text : {"", "3", "3:3", "0:3:", "5:3:", "1:5:0", "1:5:5", "1:5:3,2", "1:5:2,2", "1:5:x",
                           "a:b:", "1:5:2;3", "1:5:2,", "-1:5:", "1:99999999999999999999:"})
    EXPECT_FALSE(Snapshot::parse(text)) << text;
}

TEST(Snapshot, BaseIsTheOldestYoungTransaction) {
  const auto snapshot = *Snapshot::parse("100:2000:100,1500,1990");
  EXPECT_EQ(1990U, snapshot.base(100));
  EXPECT_EQ(1500U, snapshot.base(1000));
  EXPECT_EQ(100U, snapshot.base(1'000'000));
  EXPECT_EQ(2000U, snapshot.base(5));
  EXPECT_EQ(3U, Snapshot{}.base(10));
}

}  // namespace
}  // namespace waybill
