#include "store/postgres/look.h"

#include <algorithm>
#include <iterator>

namespace waybill {
namespace {

// A sequence is read without a lock. While nextval() writes to the server's log it shows a number this far ahead of
// those that were drawn (SEQ_LOG_VALS).
constexpr std::int64_t sequence_ahead_max = 32;

// So many events are passed by one statement.
constexpr std::int64_t passed_at_once = 20'000;

// So many looks are remembered.
constexpr std::size_t marks_max = 64;

}  // namespace

std::vector<LookGroup> look_groups(std::vector<SeenShard> shards, std::uint64_t reach, std::uint64_t oldest) {
  const auto base_of = [&](const SeenShard& shard) { return shard.settled->base(reach); };
  std::sort(shards.begin(), shards.end(), [&](const auto& a, const auto& b) { return base_of(a) < base_of(b); });
  std::vector<LookGroup> groups;
  for (const SeenShard& shard : shards) {
    const std::uint64_t base = base_of(shard);
    if (base < oldest) continue;
    if (groups.empty() || base > groups.back().base + reach) groups.push_back({.base = base});
    LookGroup& group = groups.back();
    group.shards.push_back(shard);
    const auto& open = shard.settled->open;
    group.late.insert(open.begin(), std::lower_bound(open.begin(), open.end(), group.base));
  }
  return groups;
}

PgStatement probe_statement(const PgQueries& queries, std::span<const LookGroup> groups, int limit) {
  std::vector<std::uint64_t> bases;
  std::vector<std::optional<std::string>> group_of_shard;
  std::vector<std::optional<std::string>> settled;
  std::vector<std::string> late;
  bool any_late = false;
  for (const LookGroup& group : groups) {
    bases.push_back(group.base);
    for (const SeenShard& shard : group.shards) {
      const auto index = static_cast<std::size_t>(shard.shard);
      if (group_of_shard.size() <= index) {
        group_of_shard.resize(index + 1);
        settled.resize(index + 1);
      }
      group_of_shard[index] = std::to_string(bases.size());
      settled[index] = shard.settled->to_string();
    }
    late.push_back(pg_array<std::uint64_t>(std::vector(group.late.begin(), group.late.end())));
    any_late = any_late || !group.late.empty();
  }
  PgStatement statement{
      any_late ? &queries.probe_late : &queries.probe,
      {pg_array<std::uint64_t>(bases), pg_array(group_of_shard), pg_array(settled), std::to_string(limit)}};
  if (any_late) statement.parameters.emplace_back(pg_array(late));
  return statement;
}

std::int64_t find_floor(PgConnection& connection, const PgQueries& queries, std::uint64_t base) {
  std::int64_t least = INT64_MAX;
  PgParameters place{std::to_string(base), "-1", "0", std::to_string(passed_at_once)};
  while (true) {
    const PgStatement statement{&queries.bounds, place};
    const PgRows rows = connection.transact(std::span(&statement, 1)).at(0);
    if (!rows.null(0, 0)) least = std::min(least, rows.integer(0, 0) - 1);
    if (rows.integer(0, 1) < passed_at_once) return least;
    place[0] = rows.text(0, 2);
    place[1] = std::to_string(rows.integer(0, 3));
    place[2] = std::to_string(rows.integer(0, 4));
  }
}

void Floors::looked(const Snapshot& present, std::int64_t last_seq) {
  if (last_seq_) marks_.push_back({.xmax = present.xmax, .seq = *last_seq_});
  if (marks_.size() > marks_max) marks_.pop_front();
  last_seq_ = last_seq;
}

std::optional<std::int64_t> Floors::find(std::uint64_t base) const {
  if (base <= Snapshot{}.xmin) return 0;
  const auto after = std::find_if(marks_.begin(), marks_.end(), [&](const Mark& mark) { return mark.xmax > base; });
  if (after == marks_.begin()) return std::nullopt;
  return std::max<std::int64_t>(std::prev(after)->seq - sequence_ahead_max, 0);
}

}  // namespace waybill
