#pragma once

#include <string>

#include "bench.h"

namespace waybill::bench {

// How long something took, and what it cost the processor at either end of the connection.
struct Effort {
  long events = 0;
  double seconds = 0;
  double client_cpu = 0;
  double server_cpu = 0;

  double per_second() const { return static_cast<double>(events) / seconds; }
};

// Measures `work`, which returns how many events it has moved.
template <typename Work>
Effort effort_of(const Server& server, const Work& work) {
  Effort effort{.client_cpu = -own_cpu_seconds(), .server_cpu = -server.cpu()};
  const auto begin = std::chrono::steady_clock::now();
  effort.events = work();
  effort.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  effort.client_cpu += own_cpu_seconds();
  effort.server_cpu += server.cpu();
  return effort;
}

// A relay in this process, with the null sink and otherwise as it comes, delivers a whole log: from the moment it is
// started until it has settled the last event, given its leases back and ended.
Effort drain(const Server& server, const std::string& url, const std::string& destination, long events);

// The same for a relay that is up and running, and is told of a backlog written by one transaction: from that one's
// commit until the last event is delivered. For backlogs so small that a relay's start would count.
Effort drain_running(const Server& server, const std::string& url, const std::string& destination, long events);

// The ratio of each pair, and the medians of both sides' rates and costs per event.
Figure ratio_of_rates(std::string name, Goal goal, const std::vector<std::pair<Effort, Effort>>& pairs,
                      const std::string& other_name);

}  // namespace waybill::bench
