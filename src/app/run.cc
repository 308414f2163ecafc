#include <algorithm>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "waybill/error.h"
#include "waybill/relay.h"

#include "admin/figures.h"
#include "app/commands.h"
#include "app/core_dumps.h"
#include "app/doors.h"
#include "app/drain_watch.h"
#include "app/monitor.h"
#include "app/notify.h"
#include "app/relay_at_work.h"
#include "app/reloads.h"
#include "app/session.h"
#include "app/signals.h"
#include "app/store_wait.h"
#include "app/terminal.h"
#include "app/time_limit.h"
#include "app/wiring.h"
#include "base/time_text.h"

namespace waybill::app {
namespace {

void require_safety(const std::string& destination, const std::vector<Finding>& findings, const Log& log) {
  for (const auto& finding : findings) {
    const std::string text = fmt::format("{}: {}", finding.what, finding.text);
    if (finding.level == Finding::Level::problem)
      throw Error(Remedy::fix_config, fmt::format("destination '{}': {}; {}", destination, text, finding.remedy));
    if (finding.level == Finding::Level::warning)
      log.warning(text, {{"destination", destination}, {"remedy", finding.remedy}});
  }
}

// Throws Error(fix_config) if events would not be safe at a destination. Brokers are asked at the same time: one that
// does not answer takes seconds.
void require_safety(const Settings& settings, const Log& log) {
  constexpr std::size_t at_once = 32;
  const auto& all = settings.destinations;
  for (std::size_t first = 0; first < all.size(); first += at_once) {
    std::vector<std::future<std::vector<Finding>>> examined;
    for (std::size_t i = first; i < std::min(first + at_once, all.size()); ++i)
      examined.push_back(std::async(std::launch::async, [&, i] { return examine(all[i]); }));
    for (std::size_t i = 0; i < examined.size(); ++i)
      require_safety(all[first + i].options.name, examined[i].get(), log);
  }
}

std::unique_ptr<Relay> make_relay(const Settings& settings, Store& store, const Log& log) {
  require_safety(settings, log);
  auto relay = std::make_unique<Relay>(store, settings.relay, log);
  for (const auto& destination : settings.destinations)
    if (destination.sink.make) relay->add(destination.options, destination.sink.make(log));
  return relay;
}

void choose(LogChoice& choice, const Settings& settings) {
  choice.least = settings.log_level;
  choice.format = settings.log_format;
}

// What works until a signal ends it: one relay after the other, each with the configuration of its time. The next one
// is made before the last one is told to leave, and begins while that one leaves: neither a configuration that does not
// work nor a destination that hangs keeps the others waiting.
class Service {
 public:
  Service(Store& store, Reloads& reloads, const Notifier& notifier, std::shared_ptr<LogChoice> choice, Log log,
          std::stop_token stop)
      : store_(store),
        reloads_(reloads),
        notifier_(notifier),
        choice_(std::move(choice)),
        log_(std::move(log)),
        stop_(std::move(stop)),
        figures_(store),
        monitor_(figures_),
        doors_(store, monitor_, log_) {}

  // `prepare` waits for the store; false: a stop came first. /livez answers meanwhile.
  void run(Settings settings, const std::function<bool()>& prepare) {
    doors_.open(settings);
    if (!prepare()) return;
    const std::jthread figures([this](const std::stop_token& stop) { figures_.run(stop); });
    auto working = begin(make_relay(settings, store_, log_), settings);
    std::vector<std::unique_ptr<RelayAtWork>> leaving;
    while (auto next = reloads_.next()) {
      std::erase_if(leaving, [](const auto& each) { return each->gone(); });
      if (auto relay = accept(std::move(*next), settings)) {
        working->leave();
        if (is_embedded(settings)) working->finish();  // It has one relay at a time.
        leaving.push_back(std::move(working));
        working = begin(std::move(relay), settings);
      } else {
        notifier_.ready();
      }
    }
    working->finish();
  }

 private:
  std::unique_ptr<RelayAtWork> begin(std::unique_ptr<Relay> relay, const Settings& settings) {
    auto working = std::make_unique<RelayAtWork>(std::move(relay), settings, store_, monitor_, log_, stop_,
                                                 [this] { reloads_.end(); });
    notifier_.ready();
    return working;
  }

  // A relay for the next settings, which then are the settings; none if they turn out not to work.
  std::unique_ptr<Relay> accept(Settings next, Settings& settings) {
    try {
      auto relay = make_relay(next, store_, log_);
      doors_.open(next);
      settings = std::move(next);
      choose(*choice_, settings);
      log_.info("the new configuration holds");
      return relay;
    } catch (const Error& error) {
      log_.error("the new configuration does not work: the old one stays", {{"error", error.what()}});
    }
    reloads_.go_back_to(settings);
    doors_.open(settings);
    return nullptr;
  }

  Store& store_;
  Reloads& reloads_;
  const Notifier& notifier_;
  const std::shared_ptr<LogChoice> choice_;
  const Log log_;
  const std::stop_token stop_;
  Figures figures_;
  Monitor monitor_;
  Doors doors_;
};

std::optional<std::chrono::milliseconds> parse_timeout(const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto timeout = parse_duration(text);
  if (!timeout || *timeout <= std::chrono::milliseconds(0))
    throw Error(Remedy::fix_input, fmt::format("--timeout '{}' must be a duration such as 500ms, 30s or 5m", text));
  return timeout;
}

// Delivers what is there now.
class Once {
 public:
  Once(const Settings& settings, const RunOptions& options, const Signals& signals, const Log& log)
      : settings_(settings),
        signals_(signals),
        log_(log),
        timeout_(options.timeout),
        limit_(signals.stop_token(), parse_timeout(options.timeout)) {}

  // A stop is how `run` ends; `run --once` has not done what it was asked for.
  int run(Store& store, const StoreWait& wait, const Notifier& notifier) {
    const bool ready = prepare_store(store, wait, notifier, log_, limit_.token());
    if (signals_.received() != 0) return 128 + signals_.received();
    if (!ready)
      throw Error(Remedy::retry, fmt::format("the store was away until --timeout {}; nothing was delivered", timeout_));
    const auto relay = make_relay(settings_, store, log_);
    const auto names = served_destinations(settings_);
    DrainWatch watch(store, *relay, names);
    {
      const std::jthread watching([&](const std::stop_token& stop) { watch.run(stop); });
      relay->drain(limit_.token());
    }
    log_counts(*relay, settings_, log_);
    if (signals_.received() != 0) return 128 + signals_.received();
    const auto left = left_undelivered(*store.inspector(), names, watch, limit_.over());
    if (left.empty()) return static_cast<int>(ExitCode::ok);
    if (limit_.over()) say(fmt::format("not done within --timeout {}", timeout_));
    for (const auto& line : left) say(line);
    return static_cast<int>(ExitCode::unhealthy);
  }

 private:
  const Settings& settings_;
  const Signals& signals_;
  const Log& log_;
  const std::string timeout_;
  TimeLimit limit_;
};

}  // namespace

int run(const Sources& sources, const RunOptions& options) {
  const Notifier notifier(sources.environment);
  Reloads reloads(sources, notifier);
  const Signals signals(options.once ? std::function<void()>() : [&] { reloads.ask(); });
  const Settings settings = load_settings(sources);
  require_destinations(settings);
  if (settings.core_dumps) NoCoreDumps::allow_core_dumps();
  const auto choice = std::make_shared<LogChoice>();
  choose(*choice, settings);
  const Log log = stderr_log(choice);
  const auto store = open_store(settings, log);
  const StoreWait wait{.migrate = options.migrate || is_embedded(settings), .wait = !options.no_wait};
  if (options.once) return Once(settings, options, signals, log).run(*store, wait, notifier);

  Service service(*store, reloads, notifier, choice, log, signals.stop_token());
  const std::stop_callback on_signal(signals.stop_token(), [&] { reloads.end(); });
  service.run(settings, [&] {
    if (!prepare_store(*store, wait, notifier, log, signals.stop_token())) return false;
    reloads.begin(settings, log);
    return true;
  });
  return static_cast<int>(ExitCode::ok);
}

}  // namespace waybill::app
