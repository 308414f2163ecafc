#include "relay_process.h"

#include <atomic>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include <fmt/format.h>
#include <signal.h>

#include "program.h"

namespace waybill::bench {
namespace {

std::string next_name() {
  static std::atomic<int> number = 0;
  return fmt::format("relay-{}", ++number);
}

void require_good_end(ChildProcess& process, const std::string& log_path) {
  if (const int code = process.wait(); code != 0) {
    std::ifstream file(log_path);
    const std::string log{std::istreambuf_iterator<char>(file), {}};
    throw std::runtime_error(fmt::format("a relay ended with {}: {}", code, log));
  }
}

void stop_process(ChildProcess& process, const std::string& log_path) {
  process.signal(SIGTERM);
  require_good_end(process, log_path);
}

void kill_process(ChildProcess& process) {
  process.signal(SIGKILL);
  process.wait();
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
  // It may hold a password.
  std::filesystem::permissions(path, std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
  process_.emplace(std::vector<std::string>{waybill, "run", "--config", path}, folder_.path() + "/log");
}

void RelayProcess::stop() {
  stop_process(*process_, folder_.path() + "/log");
}

void RelayProcess::require_running() {
  if (process_->running()) return;
  require_good_end(*process_, folder_.path() + "/log");
  throw std::runtime_error("a relay ended by itself");
}

void RelayProcess::kill() {
  kill_process(*process_);
}

FlakyRelay::FlakyRelay(const std::string& store, const std::string& destination, const std::vector<std::string>& moods)
    : name_(next_name()), reader_(folder_.path() + "/deliveries") {
  std::vector<std::string> command{
      (own_folder() / "flaky_relay").string(), "--store", store, "--name", name_, "--destination", destination, "--log",
      folder_.path() + "/deliveries"};
  command.insert(command.end(), moods.begin(), moods.end());
  process_.emplace(command, folder_.path() + "/log");
}

void FlakyRelay::stop() {
  stop_process(*process_, folder_.path() + "/log");
}

void FlakyRelay::kill() {
  kill_process(*process_);
}

std::map<std::string, std::set<int>> shards_owned(Connection& connection) {
  std::map<std::string, std::set<int>> owned;
  for (const auto& row :
       connection.query("SELECT r.name, l.shard FROM waybill.lease l JOIN waybill.relay r ON r.id = l.owner"))
    owned[row[0]].insert(std::stoi(row[1]));
  return owned;
}

}  // namespace waybill::bench
