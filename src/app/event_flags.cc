#include "app/event_flags.h"

#include <fmt/format.h>

#include "waybill/error.h"

#include "app/aggregate_text.h"
#include "app/moment.h"
#include "app/payload_file.h"
#include "model/validate.h"

namespace waybill::app {
namespace {

void set_payload(const EventFlags& flags, Event& event) {
  const int given =
      (flags.payload ? 1 : 0) + (flags.payload_file.empty() ? 0 : 1) + (flags.payload_bytes_file.empty() ? 0 : 1);
  if (given != 1) throw Error(Remedy::fix_input, "give one of --payload, --payload-file and --payload-bytes-file");
  if (flags.payload) event.payload = flags.payload;
  if (!flags.payload_file.empty()) event.payload = read_payload(flags.payload_file);
  if (!flags.payload_bytes_file.empty()) event.payload_bytes = read_payload(flags.payload_bytes_file);
}

Header parse_header(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(Remedy::fix_input, fmt::format("--header '{}' must read NAME=VALUE", text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

Event event_of(const EventFlags& flags) {
  Event event;
  event.topic = flags.topic;
  event.type = flags.type;
  if (!flags.aggregate.empty()) event.aggregate = parse_aggregate(flags.aggregate);
  event.version = flags.version;
  event.key = flags.key;
  if (!flags.tenant.empty()) event.tenant = flags.tenant;
  if (!flags.id.empty()) {
    event.id = EventId::parse(flags.id);
    if (!event.id) throw Error(Remedy::fix_input, fmt::format("--id '{}' is no UUID", flags.id));
  }
  set_payload(flags, event);
  event.content_type = flags.content_type;
  event.metadata = flags.metadata;
  for (const auto& header : flags.headers) event.headers.push_back(parse_header(header));
  event.routing_key = flags.routing_key;
  event.schema_id = flags.schema_id;
  event.schema_version = flags.schema_version;
  event.attempts_max = flags.attempts_max;
  event.dedup_key = flags.dedup_key;
  const Time now = system_clock().now();
  const auto moment = [&](std::string_view flag, const std::string& text, Direction direction) {
    return text.empty() ? std::nullopt : std::optional(parse_moment(flag, text, now, direction));
  };
  event.occurred_at = moment("--occurred-at", flags.occurred_at, Direction::past);
  event.not_before = moment("--not-before", flags.not_before, Direction::future);
  event.expires_at = moment("--expires-at", flags.expires_at, Direction::future);
  validate(event);
  return event;
}

}  // namespace waybill::app
