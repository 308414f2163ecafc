#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/api.h"
#include "waybill/time.h"

namespace WAYBILL_API waybill {

// A UUID. Ours are version 7: their first 48 bits are the milliseconds since 1970, so that they sort by age.
struct EventId {
  std::array<std::uint8_t, 16> bytes{};

  // A new id, greater than every one this process made before. Thread-safe.
  static EventId make();
  // The id that `text` spells ("018f3c1e-…", any case), or nothing.
  static std::optional<EventId> parse(std::string_view text);
  std::string to_string() const;
  void append_to(std::string& text) const;

  friend auto operator<=>(const EventId&, const EventId&) = default;
};

// The thing an event is about: a waiting queue, an order. Both parts, or neither.
struct Aggregate {
  std::string type{};
  std::string id{};
};

// A header travels beside the payload as a header of the broker's message.
struct Header {
  std::string name{};
  std::string value{};
};

// An event as the application hands it over. Only the topic and one of the payloads are required; an empty
// string means "none". The limits are those of `limits` below; enqueue refuses what breaks them and writes
// nothing.
struct Event {
  std::string topic{};                         // What it is published under; destinations match on it.
  std::string type{};                          // What happened; none: the topic.
  Aggregate aggregate{};                       // What it happened to; also the ordering key, unless `key` is set.
  std::optional<std::int64_t> version{};       // The aggregate's version after the event.
  std::string key{};                           // Ordering key: events of one tenant and key arrive in order. With
                                               // neither key nor aggregate an event is its own key.
  std::optional<std::string> payload{};        // JSON, delivered byte for byte,
  std::optional<std::string> payload_bytes{};  // or any bytes. Exactly one of the two.
  std::string content_type{};                  // None: application/json, application/octet-stream.
  std::string metadata{};                      // A JSON object, part of the message; none: {}.
  std::vector<Header> headers{};
  std::string routing_key{};  // Wins over the destination's template.
  std::string schema_id{};
  std::optional<std::int32_t> schema_version{};
  std::optional<Time> occurred_at{};           // None: when it was written.
  std::optional<Time> not_before{};            // Not delivered earlier; it leaves its key's order until then. At most
                                               // 366 days ahead, by the store's clock.
  std::optional<Time> expires_at{};            // Not delivered later.
  std::optional<std::int32_t> attempts_max{};  // 1 to 1000. None: as the destination says.
  std::string dedup_key{};                     // A second event of the tenant with the same key is not written.
  std::string tenant = "default";              // To name none: then it is that of the transaction, if it has one.
  std::optional<EventId> id{};                 // None: made by us.
};

// What an event may measure, in bytes of UTF-8, and ask for. The tables hold the same limits as constraints.
namespace limits {
inline constexpr std::size_t name_bytes_max = 255;  // topic, type, aggregate type, tenant, routing key, …
inline constexpr std::size_t key_bytes_max = 512;   // aggregate id, key, dedup key
inline constexpr std::size_t headers_bytes_max = std::size_t{16} * 1024;  // as the JSON object they are stored as
inline constexpr std::size_t metadata_bytes_max = std::size_t{64} * 1024;
inline constexpr std::size_t payload_bytes_max = std::size_t{768} * 1024;  // fits every broker's default
inline constexpr std::size_t error_bytes_max = 2'000;                      // of what is kept about a failed attempt
inline constexpr std::int32_t attempts_max = 1'000;                        // that an event may ask for
inline constexpr std::chrono::hours schedule_max{24 * 366};                // of not_before after it was written
}  // namespace limits

// An event as it rests in the log and as a sink gets it. The views point into memory that outlives the
// event's outcome. An empty view means "none".
struct EventView {
  std::int64_t seq = 0;  // Its place in the log. Unique, but not the order of commits: never a cursor by itself.
  std::int32_t shard = 0;
  EventId id{};
  std::string_view tenant{};
  std::string_view topic{};
  std::string_view type{};  // The topic, where the application gave none.
  std::string_view aggregate_type{};
  std::string_view aggregate_id{};
  std::optional<std::int64_t> version{};
  std::string_view key{};
  std::string_view payload{};
  bool payload_is_json = true;
  bool payload_deferred = false;  // Large: not read yet. Never so when a sink gets it.
  std::string_view content_type{};
  std::string_view metadata{};  // JSON object
  std::string_view headers{};   // JSON object whose values are strings
  std::string_view routing_key{};
  std::string_view schema_id{};
  std::optional<std::int32_t> schema_version{};
  Time occurred_at{};
  Time created_at{};
  std::optional<Time> not_before{};
  std::optional<Time> expires_at{};
  std::optional<std::int32_t> attempts_max{};
  std::string_view dedup_key{};
  std::int32_t redrives = 0;  // How often a person has sent it on its way again.
};

// The ordering key as text: `key`, else "type/id" of the aggregate, else nothing (the event is its own key).
std::string ordering_key(const EventView& event);

}  // namespace waybill
