#include "app/settings.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include "base/loopback.h"
#include "config/section.h"
#include "enqueue/schema_name.h"

namespace waybill::app {
namespace {

using config::Choice;
using config::Section;
using namespace std::chrono_literals;

constexpr std::array log_levels{Choice<LogLevel>{"debug", LogLevel::debug}, Choice<LogLevel>{"info", LogLevel::info},
                                Choice<LogLevel>{"warning", LogLevel::warning},
                                Choice<LogLevel>{"error", LogLevel::error}};
constexpr std::array log_formats{Choice<LogFormat>{"logfmt", LogFormat::logfmt},
                                 Choice<LogFormat>{"json", LogFormat::json}};
constexpr std::array failovers{Choice<Failover>{"stop", Failover::stop}, Choice<Failover>{"continue", Failover::go_on}};
constexpr std::array starts{Choice<Start>{"beginning", Start::beginning}, Choice<Start>{"now", Start::now}};
constexpr std::array dead_policies{Choice<OnDead>{"continue", OnDead::go_on}, Choice<OnDead>{"block", OnDead::block},
                                   Choice<OnDead>{"bury-key", OnDead::bury_key}};
constexpr std::array unknown_policies{Choice<OnUnknown>{"resend", OnUnknown::resend},
                                      Choice<OnUnknown>{"hold", OnUnknown::hold}};

constexpr std::size_t name_bytes_max = 63;

bool is_word(std::string_view text, std::string_view first, std::string_view rest) {
  return !text.empty() && text.size() <= name_bytes_max && first.find(text[0]) != std::string_view::npos &&
         text.find_first_not_of(rest) == std::string_view::npos;
}

bool is_destination_name(std::string_view text) {
  return is_word(text, "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz0123456789_-");
}

void read_store(Section& root, Settings& settings) {
  settings.store = root.url("store", "", R"(Where events rest: "postgresql://user@host/database" or "sqlite:FILE")");
  if (const auto problem = store_url_problem(settings.store); !problem.empty()) root.refuse("store", problem);
  settings.schema = root.text("schema", settings.schema, "PostgreSQL schema of the tables");
  if (!is_schema_name(settings.schema)) root.refuse("schema", std::string(schema_name_rule));
  settings.shards = static_cast<int>(root.integer("shards", settings.shards, {1, 256},
                                                  "Ways the log is split; fixed by the first migrate (PostgreSQL)"));
  settings.failover =
      root.choice("failover", settings.failover, failovers,
                  "When a standby was promoted: stop, or continue if standbys are synchronous (PostgreSQL)");
}

// What is kept for ever is kept for longer than anybody's clock has counted.
constexpr std::chrono::hours for_ever = 24h * 36'500;

constexpr config::Range<Section::Duration> retentions{1h, 24h * 3650};

// A message must be known for as long as a rewind or a redrive may bring it again; of this log, that is.
void read_retention_inbox(Section& root, const std::optional<std::chrono::hours>& retention, CleanOptions& clean) {
  const std::chrono::seconds sent_again =
      std::max<std::chrono::seconds>(retention.value_or(for_ever), clean.dead_older_than);
  std::optional<Section::Duration> fallback;
  if (retention) fallback = std::max(clean.inbox_older_than, sent_again);
  const auto kept = root.duration_or_off("retention_inbox", fallback, retentions,
                                         "How long the inbox knows what was handled, or \"off\": for ever");
  clean.inbox_older_than = kept ? std::chrono::ceil<std::chrono::seconds>(*kept) : for_ever;
  if (clean.inbox_older_than < sent_again)
    root.refuse("retention_inbox",
                "must not be shorter than retention and retention_dead: what is sent again until then would be handled "
                "again");
}

void read_caretaker(Section& root, Settings& settings) {
  CleanOptions& clean = settings.caretaker.clean;
  const auto retention = root.duration_or_off(
      "retention", settings.retention, retentions,
      "How long events are kept at least, or \"off\": for ever; PostgreSQL's parts are fixed by the first migrate");
  settings.retention = std::nullopt;
  if (retention) settings.retention = std::chrono::ceil<std::chrono::hours>(*retention);
  clean.events_older_than = settings.retention.value_or(for_ever);
  const auto seconds = [&](const char* key, std::chrono::seconds fallback, std::string_view about) {
    return std::chrono::ceil<std::chrono::seconds>(root.duration(key, fallback, retentions, about));
  };
  clean.dead_older_than =
      seconds("retention_dead", clean.dead_older_than, "How long dead letters are kept after that they died");
  clean.dedup_older_than = seconds("retention_dedup", clean.dedup_older_than, "How long a dedup key is remembered");
  read_retention_inbox(root, settings.retention, clean);
  clean.archive_to = root.text("archive", clean.archive_to,
                               "Folder that gets each event, as JSON lines, before it is removed; empty: none");
  settings.caretaker.interval = root.duration("clean_interval", settings.caretaker.interval, {1s, 24h},
                                              "How often what is old is removed, about");
}

void read_alerts(Section alerts, AlertLimits& limits) {
  constexpr config::Range<std::int64_t> numbers{0, 1'000'000'000};
  constexpr config::Range<Section::Duration> durations{0ms, 24h * 3650};
  limits.pending_max = alerts.limit("pending_max", limits.pending_max, numbers,
                                    "Alert if a destination has more pending events; or \"unlimited\"");
  limits.age_max = alerts.duration("age_max", limits.age_max, durations, "Alert if a pending event is older");
  limits.lag_max = alerts.duration("lag_max", limits.lag_max, durations,
                                   "Alert if nothing is settled for longer although events are pending");
  limits.retrying_max =
      alerts.limit("retrying_max", limits.retrying_max, numbers, "Alert if more events are being tried again");
  limits.attempts_max = alerts.limit("attempts_max", limits.attempts_max, numbers,
                                     "Alert if an event has failed more often and is tried again");
  limits.blocked_keys_max =
      alerts.limit("blocked_keys_max", limits.blocked_keys_max, numbers, "Alert if more keys are blocked");
  limits.held_max = alerts.limit("held_max", limits.held_max, numbers, "Alert if more events wait for a person");
  limits.expired_max = alerts.limit("expired_max", limits.expired_max, numbers,
                                    "Alert if more events expired before they were delivered");
  limits.dead_max = alerts.limit("dead_max", limits.dead_max, numbers, "Alert if there are more dead letters");
  limits.paused = alerts.boolean("paused", limits.paused, "Alert if a destination is paused and events wait for it");
}

void read_log(Section log, Settings& settings) {
  settings.log_level = log.choice("level", settings.log_level, log_levels, "Least level that is logged");
  settings.log_format = log.choice("format", settings.log_format, log_formats, "How lines are written");
}

void read_relay(Section& root, RelayOptions& relay) {
  relay.name = root.text("name", relay.name, "Name of this relay for people; empty: host and process number");
  relay.batch = static_cast<int>(
      root.integer("batch", relay.batch, {1, 10'000},
                   "Events read at once; more: fewer round trips, more memory, more duplicates after a crash"));
  relay.read_ahead_bytes_max = static_cast<std::size_t>(
      root.byte_size("read_ahead", static_cast<std::int64_t>(relay.read_ahead_bytes_max),
                     {std::int64_t{1} << 20, std::int64_t{4} << 30}, "Bytes read ahead of a destination, at most"));
  relay.settle_interval =
      root.duration("settle_interval", relay.settle_interval, {0ms, 10s}, "Progress is saved at most this often");
  relay.poll_busy = root.duration("poll_busy", relay.poll_busy, {1ms, 1min},
                                  "Longest time between polls while nobody tells of new events");
  relay.poll_idle =
      root.duration("poll_idle", relay.poll_idle, {10ms, 1min},
                    "Time between polls while applications tell; behind a pooler, after the log was still for long");
  if (relay.poll_busy > relay.poll_idle) root.refuse("poll_idle", "must not be shorter than poll_busy");
  relay.lease =
      root.duration("lease", relay.lease, {500ms, 10min}, "Silence after which another relay takes the work over");
  relay.grace = root.duration("grace", relay.grace, {0s, 1h}, "How long a stop waits for what is under way");
}

RetryPolicy read_retry(Section retry, RetryPolicy fallback) {
  RetryPolicy policy;
  policy.first_delay = retry.duration("first_delay", fallback.first_delay, {1ms, 24h},
                                      "Wait before the second attempt, at most; doubles from then on");
  policy.max_delay = retry.duration("max_delay", fallback.max_delay, {1ms, 24h * 7}, "Longest wait between attempts");
  if (policy.first_delay > policy.max_delay) retry.refuse("max_delay", "must not be shorter than first_delay");
  const auto fallback_attempts = fallback.attempts > 0 ? std::optional<std::int64_t>(fallback.attempts) : std::nullopt;
  policy.attempts = static_cast<int>(
      retry.limit("attempts", fallback_attempts, {1, 1'000'000}, "Attempts, the first included; or \"unlimited\"")
          .value_or(0));
  return policy;
}

Match read_match(Section section) {
  Match match;
  match.topic = section.list("topic", "Topics it gets, '*' for any text; none: all");
  match.type = section.list("type", "Event types it gets");
  match.tenant = section.list("tenant", "Tenants it gets events of");
  match.aggregate_type = section.list("aggregate_type", "Aggregate types it gets events of");
  return match;
}

// "127.0.0.1:8780", "[::1]:8780"
Listen read_listen(Section& root, const Listen& fallback) {
  const std::string text = root.text("listen", fmt::format("{}:{}", fallback.address, fallback.port),
                                     "Address and port of metrics and streams; loopback only; or \"off\"");
  const bool given = root.has("listen");
  if (text == "off") return {.off = true, .given = given};
  const auto colon = text.rfind(':');
  unsigned port = 0;
  const char* end = text.data() + text.size();
  std::from_chars_result parsed{end, std::errc::invalid_argument};
  if (colon != std::string::npos && colon > 0) parsed = std::from_chars(text.data() + colon + 1, end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end || port > 65'535) {
    root.refuse("listen", "must be an address and a port, as in \"127.0.0.1:8780\", or \"off\"");
    return fallback;
  }
  Listen listen{.address = text.substr(0, colon), .port = static_cast<std::uint16_t>(port), .given = given};
  if (listen.address.starts_with('[') && listen.address.ends_with(']'))
    listen.address = listen.address.substr(1, listen.address.size() - 2);
  if (!is_loopback(listen.address))
    root.refuse("listen", fmt::format("must be a loopback address, since nothing is encrypted there; '{}' is none; "
                                      "use 127.0.0.1, [::1] or localhost",
                                      listen.address));
  return listen;
}

void read_failure(Section& section, DestinationOptions& options) {
  options.on_dead = section.choice("on_dead", options.on_dead, dead_policies,
                                   "What becomes of a key when one of its events is given up");
  options.on_unknown =
      section.choice("on_unknown", options.on_unknown, unknown_policies,
                     "What becomes of an event that may have arrived: resend (at least once), hold (at "
                     "most once)");
  options.blocked_per_key_max =
      section.integer("blocked_per_key_max", options.blocked_per_key_max, {1, 100'000'000},
                      "Events of one key that may wait behind a failed one; then the shard stands still");
  options.blocked_max =
      section.integer("blocked_max", options.blocked_max, {1, 100'000'000}, "The same for all keys of one shard");
}

// A stream shows every event to every client, and every user of this machine can connect: so it asks for a token,
// unless somebody has said that it need not.
std::string read_stream_token(Section& section) {
  constexpr std::size_t token_bytes_min = 16;
  const std::string token = section.secret("token", "What clients must send: \"Authorization: Bearer TOKEN\"");
  const bool open = section.boolean("open", false, "Every user of this machine may read it, without a token");
  if (token.empty() && !open)
    section.refuse("token",
                   R"(is missing: every user of this machine could read the events; set token_file = "FILE", with )"
                   R"(what 'openssl rand -hex 32' prints in it, or open = true)");
  if (!token.empty() && open) section.refuse("open", "contradicts the token; remove one of them");
  if (!token.empty() && token.size() < token_bytes_min)
    section.refuse("token", "has less than 16 characters and could be guessed; 'openssl rand -hex 32' makes one");
  return token;
}

Destination read_destination(Section& section, const RetryPolicy& retry) {
  Destination destination;
  destination.options.name = section.name();
  if (!is_destination_name(section.name()))
    section.refuse("", "the name must be 1 to 63 of a-z, 0-9, _ and -, beginning with a letter");
  destination.type = section.required_choice("type", destination_types(), "What kind of destination it is");
  destination.options.match = read_match(section.section("match"));
  if (destination.type == stream_type) {
    destination.stream_token = read_stream_token(section);
    return destination;
  }
  destination.options.start =
      section.choice("start", destination.options.start, starts, "Where it begins when the store has never seen it");
  destination.options.retry = read_retry(section.section("retry"), retry);
  read_failure(section, destination.options);
  if (destination.type.empty()) {
    section.ignore_rest();
  } else {
    destination.sink = read_sink(destination.type, section, destination.options.retry);
  }
  return destination;
}

// The standard output has one writer: the lines of two would mix.
void refuse_second_stdout(Section& section, const std::vector<Destination>& destinations) {
  if (destinations.back().type != "stdout") return;
  const auto first = std::find_if(destinations.begin(), destinations.end(),
                                  [](const Destination& each) { return each.type == "stdout"; });
  if (first != destinations.end() - 1)
    section.refuse("type",
                   fmt::format("destination '{}' writes to the standard output already; use a file for one of them",
                               first->options.name));
}

}  // namespace

std::vector<std::string> served_destinations(const Settings& settings) {
  std::vector<std::string> names;
  for (const auto& destination : settings.destinations)
    if (destination.sink.make) names.push_back(destination.options.name);
  return names;
}

Settings read_settings(config::Config& config) {
  Settings settings;
  Section root = config.root();
  read_store(root, settings);
  read_log(root.section("log"), settings);
  settings.listen = read_listen(root, settings.listen);
  settings.core_dumps =
      root.boolean("core_dumps", settings.core_dumps, "Let 'run' dump core if it crashes: with passwords and payloads");
  read_relay(root, settings.relay);
  read_caretaker(root, settings);
  read_alerts(root.section("alerts"), settings.alerts);
  settings.alerts.retention = settings.retention;
  const RetryPolicy retry = read_retry(root.section("retry"), {});
  for (auto& section : root.named("destinations")) {
    settings.destinations.push_back(read_destination(section, retry));
    refuse_second_stdout(section, settings.destinations);
  }
  for (const auto& destination : settings.destinations)
    if (destination.type == stream_type && settings.listen.off)
      root.refuse("listen", fmt::format("is off, but destination '{}' is a stream", destination.options.name));
  config.finish();
  settings.relay.validate();
  return settings;
}

}  // namespace waybill::app
