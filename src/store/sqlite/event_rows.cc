#include "store/sqlite/event_rows.h"

#include <cstring>
#include <memory_resource>

#include "waybill/error.h"

#include "base/time_text.h"

namespace waybill {

const std::string_view event_columns =
    "seq, id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload, payload_bytes, "
    "content_type, "
    "metadata, headers, routing_key, schema_id, schema_version, "
    // An application may write times in any form that SQLite reads.
    "CASE WHEN occurred_at GLOB '*T*Z' THEN occurred_at ELSE strftime('%Y-%m-%dT%H:%M:%fZ', occurred_at) "
    "END, "
    "CASE WHEN not_before GLOB '*T*Z' THEN not_before ELSE strftime('%Y-%m-%dT%H:%M:%fZ', not_before) END, "
    "CASE WHEN expires_at GLOB '*T*Z' THEN expires_at ELSE strftime('%Y-%m-%dT%H:%M:%fZ', expires_at) END, "
    "attempts_max, dedup_key, created_at";

namespace {

std::optional<Time> time_at(const Query& row, int column) {
  if (row.null(column)) return std::nullopt;
  return parse_rfc3339(row.text(column));
}

std::optional<std::int32_t> small_at(const Query& row, int column) {
  if (row.null(column)) return std::nullopt;
  return static_cast<std::int32_t>(row.integer(column));
}

}  // namespace

class EventRows::Arena {
 public:
  std::string_view keep(std::string_view text) {
    if (text.empty()) return {};
    auto* copy = static_cast<char*>(memory_.allocate(text.size(), 1));
    std::memcpy(copy, text.data(), text.size());
    return {copy, text.size()};
  }

 private:
  std::pmr::monotonic_buffer_resource memory_{64 * 1024};
};

EventRows::EventRows() : arena_(std::make_shared<Arena>()) {}
EventRows::~EventRows() = default;
EventRows::EventRows(EventRows&&) noexcept = default;

std::shared_ptr<const void> EventRows::memory() const {
  return arena_;
}

std::string_view EventRows::keep(const Query& row, int column) {
  const std::string_view text = row.null(column) ? std::string_view() : row.text(column);
  bytes_ += text.size();
  return arena_->keep(text);
}

void EventRows::add(const Query& row) {
  EventView event{.seq = row.integer(0)};
  const auto id = EventId::parse(row.text(1));
  if (!id)
    throw Error(Remedy::fix_config,
                "waybill_event: seq " + std::to_string(event.seq) + " has an id that is no UUID");
  event.id = *id;
  event.tenant = keep(row, 2);
  event.topic = keep(row, 3);
  event.type = row.null(4) ? event.topic : keep(row, 4);
  event.aggregate_type = keep(row, 5);
  event.aggregate_id = keep(row, 6);
  if (!row.null(7)) event.version = row.integer(7);
  event.key = keep(row, 8);
  event.payload_is_json = row.null(10);
  event.payload = keep(row, event.payload_is_json ? 9 : 10);
  event.content_type = keep(row, 11);
  if (event.content_type.empty())
    event.content_type = event.payload_is_json ? "application/json" : "application/octet-stream";
  event.metadata = keep(row, 12);
  event.headers = keep(row, 13);
  event.routing_key = keep(row, 14);
  event.schema_id = keep(row, 15);
  event.schema_version = small_at(row, 16);
  event.created_at = time_at(row, 22).value_or(Time{});
  event.occurred_at = time_at(row, 17).value_or(event.created_at);
  event.not_before = time_at(row, 18);
  event.expires_at = time_at(row, 19);
  event.attempts_max = small_at(row, 20);
  event.dedup_key = keep(row, 21);
  bytes_ += sizeof(EventView);
  events.push_back(event);
}

}  // namespace waybill
