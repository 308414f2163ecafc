#pragma once

#include <span>
#include <string>
#include <vector>

#include "waybill/store.h"

#include "store/postgres/database.h"

// What a session does with the table `undelivered`: the statements, and what the rows mean that they return.
namespace waybill {

// What settlements say about undelivered events. To follow settle.sql in the same transaction, which locks the leases;
// they write only where the lease is ours.
std::vector<PgStatement> undelivered_statements(const PgQueries& queries, const std::string& destination,
                                                const std::string& owner, std::span<const Settlement> settled);

// Fills in how shards were found, from what blocked.sql returned.
void read_blocked(const PgRows& rows, std::vector<Opened>& opened);

// The events that are wanted, and when the next of those without a key is due.
std::vector<PgStatement> fetch_statements(const PgQueries& queries, const std::string& destination,
                                          std::span<const Wanted> wanted);
Fetched read_fetched(std::span<const PgRows> results, std::span<const Wanted> wanted);

// A row of `undelivered`, from its columns seq, shard, key, standing, blocks, attempts, crashes, blamed, sending, wait,
// error, in_doubt, ignore_expiry, of which seq is `column`.
Undelivered undelivered_at(const PgRows& rows, int row, int column);
inline constexpr int undelivered_columns_count = 13;

// All that is known of an event that is nowhere: its seq, shard and id. `id`: that column.
EventView missing_event(const PgRows& rows, int row, int column, int id);

// A word that this program does not know is `held`: nothing happens to it by itself.
Standing standing_of(std::string_view text);

}  // namespace waybill
