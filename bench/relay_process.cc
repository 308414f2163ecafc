#include "relay_process.h"

#include <atomic>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <signal.h>

namespace waybill::bench {
namespace {

std::string next_name() {
  static std::atomic<int> number = 0;
  return fmt::format("relay-{}", ++number);
}

}  // namespace

RelayProcess::RelayProcess(const std::string& waybill, const std::string& store,
                           const std::vector<std::string>& destinations, const std::string& settings)
    : name_(next_name()) {
  const std::string path = folder_.path() + "/waybill.toml";
  std::ofstream file(path);
  file << fmt::format("store = \"{}\"\nname = \"{}\"\n{}\n", store, name_, settings);
  for (const std::string& destination : destinations)
    file << fmt::format("[destinations.{}]\ntype = \"null\"\n", destination);
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
  process_.emplace(std::vector<std::string>{waybill, "run", "--config", path}, folder_.path() + "/log");
}

void RelayProcess::stop() {
  process_->signal(SIGTERM);
  if (const int code = process_->wait(); code != 0) {
    std::ifstream file(folder_.path() + "/log");
    const std::string log{std::istreambuf_iterator<char>(file), {}};
    throw std::runtime_error(fmt::format("'waybill run' ended with {}: {}", code, log));
  }
}

void RelayProcess::kill() {
  process_->signal(SIGKILL);
  process_->wait();
}

std::map<std::string, std::set<int>> shards_owned(Connection& connection) {
  std::map<std::string, std::set<int>> owned;
  for (const auto& row :
       connection.query("SELECT r.name, l.shard FROM waybill.lease l JOIN waybill.relay r ON r.id = l.owner"))
    owned[row[0]].insert(std::stoi(row[1]));
  return owned;
}

}  // namespace waybill::bench
