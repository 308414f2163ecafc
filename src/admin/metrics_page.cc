#include "admin/metrics_page.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "base/metrics.h"
#include "model/projection_metrics.h"
#include "model/standing.h"

namespace waybill {
namespace {

using Type = Exposition::Type;
using Label = std::pair<std::string_view, std::string_view>;

double seconds(std::chrono::microseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::int64_t flag(bool value) {
  return value ? 1 : 0;
}

// A family with one sample for each of the relay's destinations.
template <typename Value>
void each(Exposition& out, const Metrics& metrics, std::string_view name, Type type, std::string_view help,
          const Value& value) {
  out.family(name, type, help);
  for (const auto& [destination, counts] : metrics.destinations) {
    const std::array labels{Label{"destination", destination}};
    out.sample(labels, value(counts));
  }
}

void write_counts(Exposition& out, const Metrics& metrics) {
  each(out, metrics, "waybill_events_published_total", Type::counter, "Events that were delivered.",
       [](const RelayCounts& counts) { return counts.delivered; });
  each(out, metrics, "waybill_events_dead_total", Type::counter,
       "Events that were given up; not those buried with their key.",
       [](const RelayCounts& counts) { return counts.dead; });
  out.family("waybill_events_expired_total", Type::counter,
             "Events not delivered in time; arrived=\"unknown\": an attempt may have arrived.");
  for (const auto& [destination, counts] : metrics.destinations) {
    const std::array no{Label{"destination", destination}, Label{"arrived", "no"}};
    const std::array unknown{Label{"destination", destination}, Label{"arrived", "unknown"}};
    out.sample(no, counts.expired);
    out.sample(unknown, counts.expired_unknown);
  }
  each(out, metrics, "waybill_events_repeated_total", Type::counter,
       "Deliveries of events that the destination had already, of an attempt whose answer was lost.",
       [](const RelayCounts& counts) { return counts.repeated; });
  each(out, metrics, "waybill_events_skipped_total", Type::counter, "Events that no rule sends to the destination.",
       [](const RelayCounts& counts) { return counts.skipped; });
  out.family("waybill_events_unmatched_total", Type::counter, "Events that no rule sends to any of the destinations.");
  std::uint64_t unmatched = 0;
  for (const auto& [destination, counts] : metrics.destinations) unmatched += counts.unmatched;
  out.sample({}, unmatched);
  out.family("waybill_attempts_failed_total", Type::counter, "Attempts that did not deliver, by what they came to.");
  for (const auto& [destination, counts] : metrics.destinations)
    for (const auto& [outcome, count] : counts.failed_with) {
      const std::array labels{Label{"destination", destination}, Label{"outcome", to_string(outcome)}};
      out.sample(labels, count);
    }
}

void write_latency(Exposition& out, const Metrics& metrics) {
  out.family("waybill_publish_seconds", Type::histogram,
             "Time from when an event was written, or was not to go before, until it was delivered.");
  for (const auto& [destination, counts] : metrics.destinations) {
    std::vector<Exposition::Bucket> buckets;
    for (const auto& [upto, count] : counts.latency.buckets) buckets.push_back({.upto = seconds(upto), .count = count});
    const std::array labels{Label{"destination", destination}};
    out.histogram(labels, buckets, counts.latency.count, seconds(counts.latency.sum));
  }
  each(out, metrics, "waybill_lag_seconds", Type::gauge, "The same of the event that was delivered last.",
       [](const RelayCounts& counts) { return seconds(counts.lag); });
}

void write_relay(Exposition& out, const Metrics& metrics) {
  each(out, metrics, "waybill_breaker_open", Type::gauge,
       "1 while the destination is away, or seems to be; 'waybill status' has the reason.",
       [](const RelayCounts& counts) { return flag(counts.breaker.open); });
  each(out, metrics, "waybill_relay_leases", Type::gauge, "Shards of the destination that this relay publishes.",
       [](const RelayCounts& counts) { return static_cast<std::int64_t>(counts.leases); });
  out.family("waybill_certificate_expires_timestamp_seconds", Type::gauge,
             "When the first certificate runs out that the last connection to the destination rested on.");
  for (const auto& [destination, counts] : metrics.destinations) {
    if (!counts.trusted_until) continue;
    const std::array labels{Label{"destination", destination}};
    const auto since_1970 = counts.trusted_until->time_since_epoch();
    out.sample(labels, std::int64_t{std::chrono::floor<std::chrono::seconds>(since_1970).count()});
  }
  out.family("waybill_store_up", Type::gauge, "1 if the store has answered the relay's last heartbeat.");
  out.sample({}, flag(metrics.health.running && metrics.health.store_up));
}

// A family with one sample for each destination that the store knows.
template <typename Write>
void each_in_store(Exposition& out, const StoreStatus& status, std::string_view name, std::string_view help,
                   const Write& write) {
  out.family(name, Type::gauge, help);
  for (const DestinationStatus& destination : status.destinations) write(destination);
}

void write_figures(Exposition& out, const Figures::Snapshot& figures) {
  const StoreStatus& status = figures.status;
  out.family("waybill_figures_age_seconds", Type::gauge, "How old the figures are that only the store can tell.");
  out.sample({}, seconds(figures.age));
  each_in_store(out, status, "waybill_pending",
                "Events not yet read by the destination's relay, or under way; at least.",
                [&](const DestinationStatus& destination) {
                  const std::array labels{Label{"destination", destination.name}};
                  out.sample(labels, destination.pending.value);
                });
  each_in_store(out, status, "waybill_oldest_pending_age_seconds",
                "Age of the oldest pending event, 0 if there is none; scheduled ones do not count.",
                [&](const DestinationStatus& destination) {
                  const std::array labels{Label{"destination", destination.name}};
                  const auto age = destination.oldest_pending ? status.now - *destination.oldest_pending
                                                              : std::chrono::microseconds(0);
                  out.sample(labels, seconds(std::max(age, std::chrono::microseconds(0))));
                });
  each_in_store(
      out, status, "waybill_undelivered", "Undelivered events by how they stand; at least.",
      [&](const DestinationStatus& destination) {
        for (const Standing standing : all_standings) {
          const std::array labels{Label{"destination", destination.name}, Label{"standing", to_string(standing)}};
          const auto count = destination.undelivered.find(standing);
          out.sample(labels, count == destination.undelivered.end() ? std::int64_t{0} : count->second.value);
        }
      });
  each_in_store(out, status, "waybill_blocked_keys", "Keys whose events wait behind an undelivered one; at least.",
                [&](const DestinationStatus& destination) {
                  const std::array labels{Label{"destination", destination.name}};
                  out.sample(labels, destination.blocked_keys.value);
                });
  write_projections(out, status.projections);
}

std::string not_alive(const RelayHealth& health) {
  return fmt::format("the relay hangs: its last heartbeat was {} s ago, the last turn of its keeper {} s\n",
                     std::chrono::floor<std::chrono::seconds>(health.since_beat).count(),
                     std::chrono::floor<std::chrono::seconds>(health.since_turn).count());
}

}  // namespace

std::string metrics_text(const Metrics& metrics) {
  Exposition out;
  out.family("waybill_build_info", Type::gauge, "1, labelled with the program's version.");
  const std::array labels{Label{"version", metrics.version}};
  out.sample(labels, std::int64_t{1});
  write_counts(out, metrics);
  write_latency(out, metrics);
  write_relay(out, metrics);
  out.family("waybill_clean_failing", Type::gauge, "1 if the last attempt at cleaning failed.");
  out.sample({}, flag(metrics.clean_failing));
  if (metrics.held_back) {
    out.family("waybill_log_held_back", Type::gauge, "How many keep events that are old enough to go.");
    out.sample({}, static_cast<std::int64_t>(*metrics.held_back));
  }
  if (metrics.figures) write_figures(out, *metrics.figures);
  return out.take();
}

void add_metrics(http::Server& server, std::function<Metrics()> metrics, std::function<RelayHealth()> health) {
  server.route("GET", "/metrics", [metrics = std::move(metrics)](const http::Request&) {
    return http::Response{.content_type = std::string(Exposition::content_type), .body = metrics_text(metrics())};
  });
  server.route("GET", "/livez", [health = std::move(health)](const http::Request&) {
    const RelayHealth now = health();
    return now.alive() ? http::Response{.body = "ok\n"} : http::Response{.status = 503, .body = not_alive(now)};
  });
}

}  // namespace waybill
