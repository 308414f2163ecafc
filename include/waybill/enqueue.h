#pragma once

#include <span>
#include <string>
#include <vector>

#include "waybill/api.h"
#include "waybill/database.h"
#include "waybill/event.h"

// STEP 1: an event is written inside the application's own transaction, and exists if and only if that
// commits.
//
// Events of one key arrive in the order in which their transactions were ordered by the application: lock or
// version-check the aggregate first, then enqueue. Where nothing else orders them, EnqueueOptions::serialize
// does.
namespace WAYBILL_API waybill {

struct EnqueueOptions {
  std::string schema = "waybill";  // PostgreSQL only

  // Orders events of one key by the first enqueue of each transaction: the second transaction waits for the
  // first to end. A transaction that enqueues several keys in several calls can deadlock with another that
  // does so in another order; the database then ends one of them, which is to be retried. SQLite has one
  // writer and needs none of it.
  bool serialize = false;
};

// Writes the event within the connection's current transaction (without one, it is a transaction by itself).
// Returns its id; if its dedup_key was used before, writes nothing and returns the id of the first. Throws
// Error(fix_input) if the event breaks a limit, before anything is sent: the transaction stays usable. After
// any other Error a PostgreSQL transaction is broken and can only be rolled back, as after every failed
// statement. If there is no transaction and the connection is lost meanwhile, Error(unknown): it may be written.
EventId enqueue(Connection& connection, const Event& event, const EnqueueOptions& options = {});
EventId enqueue(pg_conn* connection, const Event& event, const EnqueueOptions& options = {});
EventId enqueue(sqlite3* connection, const Event& event);

// Many at once, in this order: a thousand take one round trip.
std::vector<EventId> enqueue(Connection& connection, std::span<const Event> events, const EnqueueOptions& options = {});
std::vector<EventId> enqueue(pg_conn* connection, std::span<const Event> events, const EnqueueOptions& options = {});
std::vector<EventId> enqueue(sqlite3* connection, std::span<const Event> events);

// The statement behind it, for a driver of your own: parameters $1, $2, … (SQLite: ?1, ?2, …).
// It affects one row, or none if the dedup_key was used before.
struct Statement {
  std::string sql{};
  std::vector<Parameter> parameters{};
  EventId id{};  // the event's own, or the one made for it
};
Statement enqueue_statement(const Event& event, Dialect dialect, const std::string& schema = "waybill");

}  // namespace waybill
