#include "commits.h"

#include <map>

namespace waybill::bench {

Commits commits(Run& run, int clients, const std::function<Client(int)>& make, const Relays& relays) {
  const auto cpu = [&] {
    double seconds = run.server.cpu();
    for (const RelayProcess* relay : relays) seconds += cpu_seconds(relay->pid());
    return seconds;
  };
  const double before = cpu();
  const double per_second = calls_per_second(clients, run.scale.round(), make);
  const double count = per_second * std::chrono::duration<double>(run.scale.round()).count();
  return {.per_second = per_second, .cpu = 1e6 * (cpu() - before) / count};
}

void add_rates(Figure& figure, const std::string& one, const std::string& other,
               const std::vector<std::pair<Commits, Commits>>& pairs) {
  std::map<std::string, std::vector<double>> details;
  for (const auto& [a, b] : pairs) {
    figure.samples.push_back(a.per_second / b.per_second);
    details[one + " commits/s"].push_back(a.per_second);
    details[other + " commits/s"].push_back(b.per_second);
    details[one + " cpu us/commit"].push_back(a.cpu);
    details[other + " cpu us/commit"].push_back(b.cpu);
  }
  for (auto& [name, values] : details) figure.details[name] = median(std::move(values));
}

}  // namespace waybill::bench
