#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "store/postgres/database.h"
#include "store/postgres/snapshot.h"

namespace waybill {

// A shard, and the snapshot up to which it has been read.
struct SeenShard {
  std::int32_t shard = 0;
  const Snapshot* settled = nullptr;
};

// Shards whose snapshots lie so close together that one walk through the log from a common base serves them all.
struct LookGroup {
  std::uint64_t base = 0;
  std::vector<SeenShard> shards{};
  std::set<std::uint64_t> late{};  // transactions older than the base, open at the snapshot of one of them
};

// `reach` as in Snapshot::base; shards whose base is older than `oldest` are left out.
std::vector<LookGroup> look_groups(std::vector<SeenShard> shards, std::uint64_t reach, std::uint64_t oldest);

// Brings at most `limit` events of each group; see probe.sql.
PgStatement probe_statement(const PgQueries& queries, std::span<const LookGroup> groups, int limit);

// A seq below which no event of transactions from `base` on lies, read from the log; the largest there is if there are
// none. In many short transactions, if need be.
std::int64_t find_floor(PgConnection& connection, const PgQueries& queries, std::uint64_t base);

// Below which seq no event of young transactions can lie, known from the looks of one connection. Every look takes a
// transaction number after it has read the last seq drawn, and has ended when the next one takes its snapshot. What has
// a number beyond the end of that snapshot took it later than the first look did, and drew its seqs later still. (It
// does not follow that it began after the snapshot: that ends with the last transaction that has ended.)
class Floors {
 public:
  // A transaction that has written something has committed, and had read the last seq before it wrote.
  void read(std::int64_t last_seq) { last_seq_ = last_seq; }
  // The same, and it took this snapshot before.
  void looked(const Snapshot& present, std::int64_t last_seq);
  // All events of transactions from `base` on lie above it.
  std::optional<std::int64_t> find(std::uint64_t base) const;

 private:
  struct Mark {
    std::uint64_t xmax = 0;
    std::int64_t seq = 0;
  };
  std::deque<Mark> marks_;  // ascending
  std::optional<std::int64_t> last_seq_;
};

}  // namespace waybill
