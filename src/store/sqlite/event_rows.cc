#include "store/sqlite/event_rows.h"

#include <array>
#include <cstring>
#include <memory_resource>

#include <fmt/format.h>

namespace waybill {

namespace {

// An id for an event that has none to speak of: CHECKs can be turned off, and one bad row must not stop all the others.
// The same each time it is read, of version 8 (RFC 9562).
EventId id_made_of(std::string_view text, std::int64_t seq) {
  std::uint64_t hash = 14'695'981'039'346'656'037U;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1'099'511'628'211U;
  const std::array<std::uint64_t, 2> halves{hash, static_cast<std::uint64_t>(seq)};
  EventId id;
  for (std::size_t i = 0; i < id.bytes.size(); ++i)
    id.bytes[i] = static_cast<std::uint8_t>(halves[i / 8] >> (56 - 8 * (i % 8)));
  id.bytes[6] = static_cast<std::uint8_t>(0x80U | (id.bytes[6] & 0x0FU));
  id.bytes[8] = static_cast<std::uint8_t>(0x80U | (id.bytes[8] & 0x3FU));
  return id;
}

std::optional<std::int32_t> small_at(const Query& row, int column) {
  if (row.null(column)) return std::nullopt;
  return static_cast<std::int32_t>(row.integer(column));
}

// An application may write times as SQLite's own functions do. Ours have more digits than SQLite would keep.
std::string as_rfc3339(std::string_view column) {
  return fmt::format(
      "CASE WHEN {0} GLOB '*T??:??:??Z' OR ({0} GLOB '*T??:??:??.*[0-9]Z' AND length({0}) <= 30) "
      "THEN {0} ELSE strftime('%Y-%m-%dT%H:%M:%fZ', {0}) END",
      column);
}

}  // namespace

std::string event_columns() {
  return fmt::format(
      "seq, id, tenant, topic, type, aggregate_type, aggregate_id, version, key, payload, payload_bytes, content_type, "
      "metadata, headers, routing_key, schema_id, schema_version, {}, {}, {}, attempts_max, dedup_key, created_at",
      as_rfc3339("occurred_at"), as_rfc3339("not_before"), as_rfc3339("expires_at"));
}

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
  event.id = EventId::parse(row.text(1)).value_or(id_made_of(row.text(1), event.seq));
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
  event.created_at = row.time(22).value_or(Time{});
  event.occurred_at = row.time(17).value_or(event.created_at);
  event.not_before = row.time(18);
  event.expires_at = row.time(19);
  event.attempts_max = small_at(row, 20);
  event.dedup_key = keep(row, 21);
  bytes_ += sizeof(EventView);
  events.push_back(event);
}

}  // namespace waybill
