#include <condition_variable>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <random>
#include <stop_token>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/relay.h"
#include "waybill/store.h"

#include "admin/demo_page.h"
#include "app/clinic.h"
#include "app/commands.h"
#include "app/settings.h"
#include "app/signals.h"
#include "app/wiring.h"
#include "base/time_text.h"
#include "http/server.h"
#include "sink/stream/event_stream.h"

namespace waybill::app {
namespace {

using namespace std::chrono_literals;

// A folder for the demo's files, gone with it.
class DemoFolder {
 public:
  DemoFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "waybill-demo-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw Error(Remedy::fix_config, "demo: cannot make a folder below " + name);
    path_ = name;
  }
  ~DemoFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  DemoFolder(const DemoFolder&) = delete;
  DemoFolder& operator=(const DemoFolder&) = delete;
  std::string database() const { return (path_ / "clinic.db").string(); }

 private:
  std::filesystem::path path_;
};

// What the mail server of the demo does: refuses one in ten for now, and is away for two seconds of every twenty.
class MoodyMail {
 public:
  Outcome::Kind operator()(const EventView& /*event*/) {
    const auto second = std::chrono::duration_cast<std::chrono::seconds>(system_clock().steady() - start_).count();
    if (second % 20 >= 18) return Outcome::Kind::unavailable;
    return std::uniform_int_distribution<>(0, 9)(*random_) == 0 ? Outcome::Kind::retry : Outcome::Kind::delivered;
  }

 private:
  Steady start_ = system_clock().steady();
  std::shared_ptr<std::mt19937_64> random_ = std::make_shared<std::mt19937_64>(std::random_device{}());
};

struct DemoDestination {
  std::string name;
  std::vector<std::string> topics;
};

const std::vector<DemoDestination>& destinations() {
  static const std::vector<DemoDestination> both{{"board", {"patient.*", "payment.*", "consultation.*", "room.*"}},
                                                 {"mail", {"mail.*"}}};
  return both;
}

std::string quoted_list(const std::vector<std::string>& names) {
  return fmt::format("[\"{}\"]", fmt::join(names, "\",\""));
}

// Looks at the store now and then, so that the page's questions never wait for it.
class StatusWatch {
 public:
  StatusWatch(Store& store, const Relay& relay) : relay_(relay), inspector_(store.inspector()) {}

  void look() {
    std::map<std::string, std::int64_t> pending;
    for (const DestinationStatus& destination : inspector_->status().destinations)
      pending[destination.name] = destination.pending.value;
    const std::lock_guard lock(mutex_);
    pending_ = std::move(pending);
  }

  std::string json() const {
    const std::lock_guard lock(mutex_);
    std::string list;
    for (const auto& [name, topics] : destinations()) {
      const RelayCounts counts = relay_.counts(name);
      const auto pending = pending_.find(name);
      list += fmt::format(R"({}{{"name":"{}","delivered":{},"failed":{},"skipped":{},"pending":{},"topics":{}}})",
                          list.empty() ? "" : ",", name, counts.delivered, counts.failed, counts.skipped,
                          pending == pending_.end() ? 0 : pending->second, quoted_list(topics));
    }
    return fmt::format(R"({{"destinations":[{}]}})", list);
  }

 private:
  const Relay& relay_;
  std::unique_ptr<Inspector> inspector_;
  mutable std::mutex mutex_;
  std::map<std::string, std::int64_t> pending_;  // guarded by mutex_
};

std::optional<std::chrono::milliseconds> duration_of(const DemoOptions& options) {
  if (options.duration.empty()) return std::nullopt;
  const auto duration = parse_duration(options.duration);
  if (!duration) throw Error(Remedy::fix_input, fmt::format("--for {}: write it as 20s or 5m", options.duration));
  return duration;
}

// The clinic's morning, until told to stop or the time is over.
void live(Clinic& clinic, Relay& relay, EventStream& stream, StatusWatch& watch, const std::stop_token& stop,
          std::optional<std::chrono::milliseconds> duration) {
  const Steady end = system_clock().steady() + duration.value_or(24h * 365);
  std::mt19937_64 random(std::random_device{}());
  std::mutex mutex;
  std::condition_variable_any pause;
  while (!stop.stop_requested() && system_clock().steady() < end) {
    clinic.step();
    relay.hint();
    stream.hint();
    watch.look();
    std::unique_lock lock(mutex);
    pause.wait_for(lock, stop, std::chrono::milliseconds(50 + random() % 500), [] { return false; });
  }
}

}  // namespace

int demo(const DemoOptions& options) {
  const auto duration = duration_of(options);
  const Signals signals;
  const Log log = stderr_log(LogLevel::warning, LogFormat::logfmt);
  const DemoFolder folder;
  const auto store = open_store(Settings{.store = "sqlite:" + folder.database()}, log);
  store->schema()->migrate();

  Relay relay(*store, RelayOptions{.grace = 5s}, log);
  for (const auto& [name, topics] : destinations()) {
    DestinationOptions destination{
        .name = name, .match = {.topic = topics}, .retry = {.first_delay = 500ms, .max_delay = 5s}};
    relay.add(destination, sink_from(name == "mail" ? std::function<Outcome::Kind(const EventView&)>(MoodyMail())
                                                    : [](const EventView&) { return Outcome::Kind::delivered; }));
  }
  std::stop_source relay_stop;
  StatusWatch watch(*store, relay);
  http::Server server({.address = "127.0.0.1", .port = options.port}, log);
  EventStream stream(
      {.name = "board"}, [&] { return store->follow(); }, log);
  stream.add_to(server);
  add_demo_page(server, [&] { return watch.json(); });
  server.start();
  fmt::print(stderr, "waybill: a clinic at work on {}\n", store->describe());
  fmt::print("{}\n", server.url());
  std::fflush(stdout);
  fmt::print(stderr, "waybill: open the address above in a browser; Ctrl-C ends the demo\n");

  auto relaying = std::async(std::launch::async, [&, stop = relay_stop.get_token()] { relay.run(stop); });
  Clinic clinic(folder.database(), std::random_device{}());
  live(clinic, relay, stream, watch, signals.stop_token(), duration);
  relay_stop.request_stop();
  relaying.get();  // An error of the relay's is ours.
  server.stop();
  bool both = true;
  for (const auto& destination : destinations()) {
    const RelayCounts counts = relay.counts(destination.name);
    fmt::print(stderr, "waybill: {}: {} delivered, {} attempts failed\n", destination.name, counts.delivered,
               counts.failed);
    both = both && counts.delivered > 0;
  }
  if (signals.received() != 0) return static_cast<int>(ExitCode::ok);
  return static_cast<int>(both ? ExitCode::ok : ExitCode::failure);
}

}  // namespace waybill::app
