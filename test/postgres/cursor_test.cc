// The cursor is appended, never updated; its rows tell how far a destination is, and when each event was settled
// (design: "The cursor").

#include "postgres/postgres_fixture.h"

namespace waybill {
namespace {

using testing::ElementsAre;

class CursorTest : public PostgresTest {
 protected:
  std::vector<std::string> cursors() { return app.column("SELECT c::text FROM waybill.cursor c ORDER BY id"); }
  // When the destination settled the event, as the number of the cursor row that has this time; 0: not yet.
  std::int64_t settled_by(const EventId& id) {
    const auto story = store->inspector()->find(id);
    const auto& at = story.value().destinations.at(0);
    EXPECT_EQ(at.settled_at ? "published" : "pending", at.state);
    if (!at.settled_at) return 0;
    return app.number("SELECT coalesce(max(id), -1) FROM waybill.cursor WHERE settled_at = 'epoch'::timestamptz + " +
                      std::to_string(at.settled_at->time_since_epoch().count()) + " * interval '1 microsecond'");
  }
  std::int64_t newest() { return app.number("SELECT max(id) FROM waybill.cursor"); }
  static void settle_one(Reader& reader) {
    std::map<std::int32_t, std::size_t> counts;
    for (const std::int32_t shard : reader.shards)
      if (reader.unsettled(shard) > 0) counts[shard] = 1;
    reader.settle(counts);
  }
};

TEST_F(CursorTest, Row32_IsAppendedNeverUpdated) {
  Reader reader(*store);
  auto before = cursors();
  for (int i = 0; i < 20; ++i) {
    put(std::to_string(i % 10), std::to_string(i));
    reader.read_all();
    reader.settle_all();
    auto after = cursors();
    ASSERT_EQ(before.size() + 1, after.size());
    after.pop_back();
    EXPECT_EQ(before, after);
    before = cursors();
  }
  EXPECT_EQ(0, app.number("SELECT count(*) FROM waybill.cursor WHERE xmax::text <> '0'"));
}

TEST_F(CursorTest, ShardsAtTheSamePlaceShareARow) {
  for (int i = 0; i < 100; ++i) put("a", std::to_string(i));
  Reader reader(*store);
  ASSERT_EQ(100U, reader.read_all().size());
  const auto before = newest();
  reader.settle_all();
  EXPECT_EQ(before + 1, newest());
  EXPECT_EQ("100 16", app("SELECT count || ' ' || cardinality(shards) FROM waybill.cursor ORDER BY id DESC LIMIT 1"));
}

TEST_F(CursorTest, TheNewestRowOfAShardCounts) {
  for (int i = 0; i < 8; ++i) put(std::to_string(i), "k");
  Reader first(*store);
  ASSERT_EQ("01234567", first.names());
  for (int i = 0; i < 5; ++i) settle_one(first);
  first.leave();
  EXPECT_EQ("567", Reader(*store).names());
}

TEST_F(CursorTest, TellsWhenAnEventWasSettled) {
  for (const int limit : {100, 1}) {
    const EventId a = put("a");
    const EventId b = put("b");
    const EventId c = put("c");
    Reader reader(*store, "out");
    reader.names(limit);
    EXPECT_EQ(0, settled_by(a));
    settle_one(reader);
    const auto first = newest();
    EXPECT_EQ(first, settled_by(a));
    EXPECT_EQ(0, settled_by(b));
    settle_one(reader);
    const auto second = newest();
    reader.settle_all();
    const auto third = newest();
    put("d");
    reader.names(limit);
    reader.settle_all();
    EXPECT_EQ(first, settled_by(a)) << limit;
    EXPECT_EQ(second, settled_by(b)) << limit;
    EXPECT_EQ(third, settled_by(c)) << limit;
    EXPECT_GT(newest(), third);
    reader.leave();
  }
}

TEST_F(CursorTest, ALateCommitIsSettledByTheFirstRowThatSeesIt) {
  Reader reader(*store);
  Sql open = connect();
  open("BEGIN");
  const EventId late = put(open, "l");
  const EventId early = put("e");
  EXPECT_EQ("e", reader.names());
  reader.settle_all();
  const auto first = newest();
  open("COMMIT");
  EXPECT_EQ(first, settled_by(early));
  EXPECT_EQ(0, settled_by(late)) << "its number is lower than what was settled, but it was not visible then";
  // A window in whose middle the cursor rests: the late one comes first, by its seq.
  const EventId x = put("x");
  EXPECT_EQ("lx", reader.names());
  settle_one(reader);
  const auto second = newest();
  EXPECT_EQ(second, settled_by(late));
  EXPECT_EQ(0, settled_by(x));
  reader.settle_all();
  put("y");
  reader.names();
  reader.settle_all();
  EXPECT_EQ(first, settled_by(early));
  EXPECT_EQ(second, settled_by(late));
  EXPECT_EQ(second + 1, settled_by(x));
}

TEST_F(CursorTest, StatusCountsLateOnesAndTheMiddleOfAWindow) {
  Reader reader(*store);
  const auto pending = [&] { return store->inspector()->status().destinations.at(0).pending.value; };
  Sql open = connect();
  open("BEGIN");
  put(open, "l");
  put("a");
  put("b");
  EXPECT_EQ(2, pending());
  reader.names();
  settle_one(reader);
  EXPECT_EQ(1, pending());
  reader.settle_all();
  EXPECT_EQ(0, pending());
  open("COMMIT");
  EXPECT_EQ(1, pending());
  reader.names();
  reader.settle_all();
  EXPECT_EQ(0, pending());
}

TEST_F(CursorTest, OneOfALaterTimeThanTheServersIsRefused) {
  Reader reader(*store);
  reader.leave();
  app("INSERT INTO waybill.cursor (destination, shards, settled, hi, count) SELECT 'out', '{0}', s, "
      "pg_snapshot_xmax(s), "
      "0 FROM (SELECT '900000000:900000000:'::pg_snapshot AS s) x");
  try {
    Reader again(*store);
    FAIL() << "went on where the server has not been yet";
  } catch (const Error& error) {
    EXPECT_EQ(Remedy::fix_config, error.remedy());
    EXPECT_THAT(error.what(), testing::HasSubstr("waybill anchor"));
  }
}

}  // namespace
}  // namespace waybill
