#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "bench.h"
#include "relay_process.h"

namespace waybill::bench {

// How many commits clients come to.
struct Commits {
  double per_second = 0;
  double cpu = 0;  // The server's and the relays', in microseconds a commit: what a busy machine says less about.
};
using Relays = std::vector<const RelayProcess*>;

// For a round, each client calling what `make` has made for it.
Commits commits(Run& run, int clients, const std::function<Client(int)>& make, const Relays& relays = {});

// The ratio of each pair, and medians of what it was made of.
void add_rates(Figure& figure, const std::string& one, const std::string& other,
               const std::vector<std::pair<Commits, Commits>>& pairs);

}  // namespace waybill::bench
