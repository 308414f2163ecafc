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

TEST(Snapshot, IsReadBackFromFewCharacters) {
  for (const char* text : {"3:3:", "100:200:", "100:200:100,150,199", "18446744073709551614:18446744073709551615:",
                           "1:18446744073709551615:1,2,18446744073709551614"}) {
    const auto snapshot = *Snapshot::parse(text);
    EXPECT_EQ(snapshot, Snapshot::parse_compact(snapshot.to_compact())) << text;
  }
  Snapshot busy{.xmin = 3'000'000'000, .xmax = 3'000'200'000};
  for (std::uint64_t xid = busy.xmin; xid < busy.xmax; xid += 200) busy.open.push_back(xid);
  EXPECT_EQ(busy, Snapshot::parse_compact(busy.to_compact()));
  EXPECT_LT(busy.to_compact().size(), 2'050U) << busy.open.size() << " open transactions";
  for (const char* text :
       {"", "B", "A", "AA", "g", "BBB", "BCBB", "BC=", "B C", "BBA;", "______________", "B__________________"})
    EXPECT_FALSE(Snapshot::parse_compact(text)) << text;
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
