#include "waybill/event.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include <sys/random.h>

#include "base/assert.h"
#include "model/event_view.h"
#include "model/key_hash.h"

namespace waybill {
namespace {

constexpr std::string_view hex_digits = "0123456789abcdef";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Milliseconds in the upper bits, a counter of 12 bits below: never the same twice, never going back.
std::uint64_t next_stamp() {
  static std::mutex mutex;
  static std::uint64_t last = 0;
  const auto now =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch());
  const auto stamp = static_cast<std::uint64_t>(now.count()) << 12U;
  const std::lock_guard lock(mutex);
  last = std::max(stamp, last + 1);
  return last;
}

// FNV-1a with a last mixing step (murmur's): short keys, every bit used by the table.
class Hash {
 public:
  void add(std::string_view text) {
    for (const char c : text) add(c);
  }
  void add(char c) { value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL; }
  std::uint64_t value() const {
    std::uint64_t mixed = value_;
    mixed ^= mixed >> 33U;
    mixed *= 0xff51afd7ed558ccdULL;
    mixed ^= mixed >> 33U;
    return mixed == 0 ? 1 : mixed;
  }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

}  // namespace

EventId EventId::make() {
  EventId id;
  const ssize_t got = ::getrandom(id.bytes.data() + 8, 8, 0);
  WAYBILL_ASSERT(got == 8);
  const std::uint64_t stamp = next_stamp();
  for (std::size_t i = 0; i < 6; ++i) id.bytes[i] = static_cast<std::uint8_t>(stamp >> (52 - 8 * i));
  id.bytes[6] = static_cast<std::uint8_t>(0x70U | (stamp >> 8U & 0x0FU));
  id.bytes[7] = static_cast<std::uint8_t>(stamp);
  id.bytes[8] = static_cast<std::uint8_t>(0x80U | (id.bytes[8] & 0x3FU));
  return id;
}

std::optional<EventId> EventId::parse(std::string_view text) {
  if (text.size() != 36) return std::nullopt;
  EventId id;
  std::size_t nibbles = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return std::nullopt;
    if (dash) continue;
    const int value = hex_value(text[i]);
    if (value < 0) return std::nullopt;
    auto& byte = id.bytes[nibbles / 2];
    byte = static_cast<std::uint8_t>(byte << 4U | static_cast<unsigned>(value));
    ++nibbles;
  }
  return id;
}

std::string EventId::to_string() const {
  std::string text;
  append_to(text);
  return text;
}

void EventId::append_to(std::string& text) const {
  std::array<char, 36> spelled{};
  std::size_t at = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) spelled[at++] = '-';
    spelled[at++] = hex_digits[bytes[i] >> 4U];
    spelled[at++] = hex_digits[bytes[i] & 0x0FU];
  }
  text.append(spelled.data(), spelled.size());
}

EventView view_of(const Event& event, std::string_view headers, Time now) {
  return {.id = *event.id,
          .tenant = event.tenant,
          .topic = event.topic,
          .type = event.type.empty() ? event.topic : event.type,
          .aggregate_type = event.aggregate.type,
          .aggregate_id = event.aggregate.id,
          .version = event.version,
          .key = event.key,
          .payload = event.payload ? *event.payload : *event.payload_bytes,
          .payload_is_json = event.payload.has_value(),
          .content_type = !event.content_type.empty() ? std::string_view(event.content_type)
                          : event.payload             ? "application/json"
                                                      : "application/octet-stream",
          .metadata = event.metadata,
          .headers = headers,
          .routing_key = event.routing_key,
          .schema_id = event.schema_id,
          .schema_version = event.schema_version,
          .occurred_at = event.occurred_at.value_or(now),
          .created_at = now,
          .not_before = event.not_before,
          .expires_at = event.expires_at,
          .attempts_max = event.attempts_max,
          .dedup_key = event.dedup_key};
}

std::string ordering_key(const EventView& event) {
  if (!event.key.empty()) return std::string(event.key);
  if (event.aggregate_type.empty()) return {};
  std::string key(event.aggregate_type);
  key += '/';
  key += event.aggregate_id;
  return key;
}

std::uint64_t key_hash(const EventView& event) {
  if (event.key.empty() && event.aggregate_type.empty()) return 0;
  Hash hash;
  hash.add(event.tenant);
  hash.add('\0');
  if (!event.key.empty()) {
    hash.add(event.key);
  } else {
    hash.add(event.aggregate_type);
    hash.add('/');
    hash.add(event.aggregate_id);
  }
  return hash.value();
}

}  // namespace waybill
