#include "store/postgres/undelivered.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/time_text.h"
#include "model/standing.h"

namespace waybill {
namespace {

// How many bytes the UTF-8 sequence at the front takes; 0: there is none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first == 0) return 0;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool no_character = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
  return overlong || no_character ? 0 : length;
}

// What a destination says may be anything; the database takes UTF-8 without zeros, and only so much of it.
std::string storable(std::string_view error) {
  std::string out;
  while (!error.empty()) {
    const std::size_t length = sequence_length(error);
    const std::string_view next = length == 0 ? "?" : error.substr(0, length);
    if (out.size() + next.size() > limits::error_bytes_max) break;
    out += next;
    error.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

// One array for each column.
class Columns {
 public:
  explicit Columns(PgParameters fence) : parameters_(std::move(fence)) {}

  template <typename Rows, typename Value>
  Columns& add(const Rows& rows, const Value& value) {
    std::string array = "{";
    for (const auto& row : rows) {
      if (array.size() > 1) array += ',';
      append(array, value(row));
    }
    parameters_.emplace_back(std::move(array) + '}');
    return *this;
  }
  PgParameters take() { return std::move(parameters_); }

 private:
  static void append(std::string& array, std::int64_t number) { array += std::to_string(number); }
  static void append(std::string& array, bool flag) { array += flag ? 't' : 'f'; }
  static void append(std::string& array, std::string_view text) {
    array += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }

  PgParameters parameters_;
};

// Something a settlement says, with its shard.
template <typename Item>
struct Placed {
  std::int32_t shard = 0;
  const Item* item = nullptr;
};

template <typename Item>
std::vector<Placed<Item>> placed(std::span<const Settlement> settled, std::vector<Item> Settlement::*list) {
  std::vector<Placed<Item>> all;
  for (const Settlement& settlement : settled)
    for (const Item& item : settlement.*list) all.push_back({settlement.shard, &item});
  return all;
}

PgParameters fence_parameters(const std::string& destination, const std::string& owner,
                              std::span<const Settlement> settled) {
  std::vector<std::int32_t> shards;
  std::vector<std::int64_t> terms;
  for (const Settlement& settlement : settled) {
    shards.push_back(settlement.shard);
    terms.push_back(settlement.term);
  }
  return {destination, owner, pg_array<std::int32_t>(shards), pg_array<std::int64_t>(terms)};
}

constexpr auto shard_of = [](const auto& each) { return std::int64_t{each.shard}; };

PgParameters row_parameters(PgParameters fence, std::span<const Placed<Undelivered>> rows) {
  return Columns(std::move(fence))
      .add(rows, shard_of)
      .add(rows, [](const auto& each) { return each.item->seq; })
      .add(rows, [](const auto& each) { return static_cast<std::int64_t>(each.item->key); })
      .add(rows, [](const auto& each) { return to_string(each.item->standing); })
      .add(rows, [](const auto& each) { return each.item->blocks; })
      .add(rows, [](const auto& each) { return std::int64_t{each.item->attempts}; })
      .add(rows, [](const auto& each) { return std::int64_t{each.item->crashes}; })
      .add(rows, [](const auto& each) { return std::int64_t{each.item->blamed}; })
      .add(rows, [](const auto& each) { return static_cast<std::int64_t>(each.item->sending); })
      .add(rows, [](const auto& each) { return std::int64_t{each.item->wait.count()}; })
      .add(rows, [](const auto& each) { return storable(each.item->error); })
      .add(rows, [](const auto& each) { return each.item->in_doubt; })
      .take();
}

PgParameters attempt_parameters(PgParameters fence, std::span<const Placed<Attempt>> attempts) {
  return Columns(std::move(fence))
      .add(attempts, shard_of)
      .add(attempts, [](const auto& each) { return each.item->seq; })
      .add(attempts, [](const auto& each) { return std::int64_t{each.item->number}; })
      .add(attempts, [](const auto& each) { return to_rfc3339(each.item->at); })
      .add(attempts, [](const auto& each) { return to_string(each.item->outcome); })
      .add(attempts, [](const auto& each) { return storable(each.item->error); })
      .take();
}

// In place of what the event says.
void apply_edit(const PgRows& rows, int row, int column, EventView& event) {
  const int payload = event.payload_is_json ? column : column + 1;
  if (!rows.null(row, payload)) {
    event.payload = rows.text(row, payload);
    event.payload_deferred = false;
  }
  if (!rows.null(row, column + 2)) event.headers = rows.text(row, column + 2);
}

}  // namespace

std::vector<PgStatement> undelivered_statements(const PgQueries& queries, const std::string& destination,
                                                const std::string& owner, std::span<const Settlement> settled) {
  const PgParameters fence = fence_parameters(destination, owner, settled);
  const auto rows = placed(settled, &Settlement::undelivered);
  const auto delivered = placed(settled, &Settlement::delivered);
  const auto buried = placed(settled, &Settlement::buried_keys);
  const auto attempts = placed(settled, &Settlement::attempts);
  std::vector<PgStatement> statements;
  if (!rows.empty()) statements.push_back({&queries.undelivered, row_parameters(fence, rows)});
  if (!delivered.empty())
    statements.push_back(
        {&queries.delivered,
         Columns(fence).add(delivered, shard_of).add(delivered, [](const auto& each) { return *each.item; }).take()});
  if (!buried.empty())
    statements.push_back(
        {&queries.bury, Columns(fence)
                            .add(buried, shard_of)
                            .add(buried, [](const auto& each) { return static_cast<std::int64_t>(*each.item); })
                            .take()});
  if (!attempts.empty()) statements.push_back({&queries.attempts, attempt_parameters(fence, attempts)});
  return statements;
}

void read_blocked(const PgRows& rows, std::vector<Opened>& opened) {
  for (int row = 0; row < rows.size(); ++row) {
    const auto place = std::find_if(opened.begin(), opened.end(),
                                    [&](const Opened& each) { return each.lease.shard == rows.integer(row, 0); });
    if (place == opened.end()) continue;
    std::optional<std::chrono::milliseconds> wait;
    if (!rows.null(row, 3)) wait = std::chrono::milliseconds(rows.integer(row, 3));
    if (rows.null(row, 1)) {
      place->next_due = wait;
      place->crashes = static_cast<std::int32_t>(rows.integer(row, 4));
      if (!rows.null(row, 5)) place->in_doubt_until = rows.time(row, 5);
    } else {
      place->blocked.push_back(
          {.key = static_cast<std::uint64_t>(rows.integer(row, 1)), .events = rows.integer(row, 2), .wait = wait});
    }
  }
}

// When the next is due is asked first: what becomes due in between is then told twice, not missed.
std::vector<PgStatement> fetch_statements(const PgQueries& queries, const std::string& destination,
                                          std::span<const Wanted> wanted) {
  std::vector<std::int32_t> keyless;
  for (const Wanted& each : wanted)
    if (each.key == 0) keyless.push_back(each.shard);
  return {{&queries.next_due, {destination, pg_array<std::int32_t>(keyless)}},
          {&queries.fetch, Columns({destination})
                               .add(wanted, shard_of)
                               .add(wanted, [](const Wanted& each) { return static_cast<std::int64_t>(each.key); })
                               .add(wanted, [](const Wanted& each) { return each.after; })
                               .add(wanted, [](const Wanted& each) { return std::int64_t{each.events_max}; })
                               .take()}};
}

Fetched read_fetched(std::span<const PgRows> results, std::span<const Wanted> wanted) {
  const PgRows& due = results[0];
  const PgRows& rows = results[1];
  Fetched fetched{.memory = rows.memory()};
  for (int row = 0; row < due.size(); ++row)
    fetched.next_due[static_cast<std::int32_t>(due.integer(row, 0))] = std::chrono::milliseconds(due.integer(row, 1));
  std::map<std::int32_t, int> keyless;
  for (int row = 0; row < rows.size(); ++row) {
    constexpr int column = event_columns_count;
    constexpr int redrives = column + undelivered_columns_count;
    Fetched::Item& item = fetched.items.emplace_back();
    item.row = undelivered_at(rows, row, column);
    item.missing = rows.null(row, 0);
    item.event = item.missing ? missing_event(rows, row, column, redrives + 4) : event_at(rows, row);
    item.event.redrives = static_cast<std::int32_t>(rows.integer(row, redrives));
    if (!item.missing) apply_edit(rows, row, redrives + 1, item.event);
    if (item.row.key == 0) ++keyless[item.event.shard];
  }
  // Where not all that is due came, there is more at once.
  for (const Wanted& each : wanted)
    if (each.key == 0 && keyless[each.shard] >= each.events_max) fetched.next_due[each.shard] = {};
  return fetched;
}

Undelivered undelivered_at(const PgRows& rows, int row, int column) {
  return {.seq = rows.integer(row, column),
          .key = static_cast<std::uint64_t>(rows.integer(row, column + 2)),
          .standing = standing_of(rows.text(row, column + 3)),
          .blocks = rows.boolean(row, column + 4),
          .attempts = static_cast<std::int32_t>(rows.integer(row, column + 5)),
          .crashes = static_cast<std::int32_t>(rows.integer(row, column + 6)),
          .blamed = static_cast<std::int32_t>(rows.integer(row, column + 7)),
          .sending = static_cast<Undelivered::Sending>(rows.integer(row, column + 8)),
          .wait = std::chrono::milliseconds(rows.integer(row, column + 9)),
          .error = std::string(rows.text(row, column + 10)),
          .in_doubt = rows.boolean(row, column + 11),
          .ignore_expiry = rows.boolean(row, column + 12)};
}

EventView missing_event(const PgRows& rows, int row, int column, int id) {
  EventView event{.seq = rows.integer(row, column), .shard = static_cast<std::int32_t>(rows.integer(row, column + 1))};
  std::memcpy(event.id.bytes.data(), rows.text(row, id).data(), event.id.bytes.size());
  return event;
}

Standing standing_of(std::string_view text) {
  return parse_standing(text).value_or(Standing::held);
}

}  // namespace waybill
