#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "postgres/postgres_fixture.h"
#include "support/child_process.h"

namespace waybill {

inline std::set<std::string> names_in(const std::vector<Reader::Seen>& events) {
  std::set<std::string> names;
  for (const auto& event : events) names.insert(event.name);
  EXPECT_EQ(names.size(), events.size()) << "something came twice";
  return names;
}

// Of each key, names in the order in which they were written.
inline void expect_order(const std::vector<Reader::Seen>& events) {
  std::map<std::string, int> last;
  for (const auto& event : events) {
    const int number = std::stoi(event.name.substr(event.name.find('/') + 1));
    EXPECT_GT(number, last[event.key]) << event.name;
    last[event.key] = number;
  }
}

class AnchorTest : public PostgresTest {
 protected:
  explicit AnchorTest(TmpPostgres& the_server = TmpPostgres::shared()) : PostgresTest(4, the_server) {
    app.burn(5'000);
  }

  void write(Sql& sql, int count) {
    for (int i = 0; i < count; ++i) {
      const std::string key = "k" + std::to_string(next_ % 7);
      put(sql, key + "/" + std::to_string(++next_), key);
    }
  }

  // A history: "out" in the middle of walks, with a transaction that was open when it last looked; "slow" has settled a
  // little, "new" nothing; "blocked" has passed everything and owes all of it.
  void make_history() {
    write(app, 100);
    Sql late(url);
    late("BEGIN");
    write(late, 3);
    Reader slow(*store, "slow");
    slow.read_all();
    slow.settle({{0, 2}, {1, 3}});
    slow.leave();
    write(app, 200);
    Reader out(*store, "out");
    out.read_all();
    out.settle_all();
    out.leave();
    late("COMMIT");
    write(app, 200);
    Reader walking(*store, "out");
    for (int i = 0; i < 3; ++i) walking.exchange(10);
    walking.settle({{0, 7}, {1, 1}, {3, 12}});
    walking.leave();
    Reader blocked(*store, "blocked");
    std::map<std::int32_t, std::vector<Undelivered>> rows;
    for (const auto& event : blocked.read_all(1'000)) {
      auto& of_shard = rows[event.shard];
      of_shard.push_back({.seq = event.seq,
                          .key = 1,
                          .standing = of_shard.empty() ? Standing::retrying : Standing::blocked,
                          .blocks = true});
    }
    for (const auto& [shard, of_shard] : rows) blocked.pass(shard, of_shard);
    blocked.leave();
  }

  // What a destination would still get.
  static std::vector<Reader::Seen> rest(Store& from, const std::string& destination) {
    Reader reader(from, destination);
    auto events = reader.read_all();
    reader.leave();
    return events;
  }

  // The database, through a dump, on another server; its URL.
  std::string restored_on(TmpPostgres& other) {
    std::string copy = other.fresh_database();
    run_command({"sh", "-c",
                 "pg_dump --no-privileges '" + url + "' | psql -q -v ON_ERROR_STOP=1 --single-transaction -d '" + copy +
                     "' >/dev/null"},
                "postgres");
    return copy;
  }

  // What this store has written and owes is what the copy sends, and besides what was written there.
  void expect_nothing_lost(Store& copy, const std::set<std::string>& written_there) {
    for (const char* destination : {"out", "slow", "new"}) {
      SCOPED_TRACE(destination);
      auto expected = names_in(rest(*store, destination));
      const auto events = rest(copy, destination);
      expected.insert(written_there.begin(), written_there.end());
      EXPECT_EQ(expected, names_in(events));
      expect_order(events);
    }
    Reader blocked(copy, "blocked");
    std::size_t owed = 0;
    for (const std::int32_t shard : blocked.shards) {
      blocked.fetched(1, shard);
      std::int64_t last = 0;
      for (const auto& [row, event, missing] : blocked.last_fetched.items) {
        EXPECT_GT(event.seq, last);
        last = event.seq;
        ++owed;
      }
    }
    EXPECT_EQ(503U, owed);
    EXPECT_EQ(written_there, names_in(blocked.read_all()));
    blocked.leave();
  }

  int next_ = 0;
};

}  // namespace waybill
