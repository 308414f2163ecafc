#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "waybill/api.h"
#include "waybill/database.h"
#include "waybill/domain_event.h"
#include "waybill/event.h"

// An event store beside the outbox, in the same database: the stream of what happened to each aggregate, for good.
// Retention does not touch it. What is appended is also enqueued, in the same transaction and round trip.
namespace WAYBILL_API waybill {

// The version that whoever appends has seen. 0: the stream must be new.
struct Expected {
  static Expected version(std::int64_t version) { return {version}; }
  static Expected none() { return {0}; }
  // Whatever it is; appenders then wait for each other.
  static Expected any() { return {std::nullopt}; }

  std::optional<std::int64_t> value{};
};

// Somebody else was faster. Read the stream again, decide again, append again: with_retries() does, if it runs the one
// who reads. The transaction can be used on. Above READ COMMITTED the database may throw another Collision instead.
class Conflict : public Collision {
 public:
  Conflict(const StreamId& stream, std::int64_t expected, std::int64_t actual);
  std::int64_t expected() const noexcept { return expected_; }
  std::int64_t actual() const noexcept { return actual_; }

 private:
  std::int64_t expected_;
  std::int64_t actual_;
};

// What an aggregate was like at a version, to begin from.
struct StreamSnapshot {
  std::int64_t version = 0;
  std::string state{};              // The application's own bytes,
  std::int32_t schema_version = 1;  // in this form of theirs.
  Time taken_at{};
};

struct StreamSummary {
  StreamId stream{};
  std::int64_t version = 0;
  Time changed_at{};
};

class EventStore {
 public:
  // Throws Error(fix_config) if a schema cannot be called so.
  explicit EventStore(std::string schema = "waybill");

  // Appends in the connection's current transaction (without one it is one by itself), and enqueues. The events'
  // `aggregate`, `version` and `tenant` are filled in; their `key`, if set, is kept; a `dedup_key` is refused, since
  // the version is what keeps an event from being appended twice. Returns the stream's new version. Throws Conflict,
  // having written nothing.
  std::int64_t append(Connection& connection, const StreamId& stream, Expected expected,
                      std::span<const Event> events) const;

  // In order, those after `after`.
  std::vector<RecordedEvent> load(Connection& connection, const StreamId& stream, std::int64_t after = 0,
                                  int events_max = 10'000) const;
  // 0: there is none.
  std::int64_t version(Connection& connection, const StreamId& stream) const;

  // The newest; at most one is kept of each stream. One that is older than what is there is not saved.
  std::optional<StreamSnapshot> snapshot(Connection& connection, const StreamId& stream) const;
  void save_snapshot(Connection& connection, const StreamId& stream, const StreamSnapshot& snapshot) const;

  // By type and id, those after `after`.
  std::vector<StreamSummary> streams(Connection& connection, const std::string& tenant, const std::string& type,
                                     const std::string& after = "", int streams_max = 1'000) const;

 private:
  std::string schema_;
};

}  // namespace waybill
