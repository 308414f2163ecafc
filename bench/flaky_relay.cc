// flaky_relay: a relay in a process of its own, to be killed at will, with a destination that writes down what it gets.
// It fails now and then at random, and all of one key for as long as it is told to.
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <random>
#include <stop_token>
#include <thread>

#include <CLI/CLI.hpp>

#include "waybill/postgres.h"
#include "waybill/relay.h"
#include "waybill/sink.h"

#include "delivery_log.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

struct Mood {
  double fail_percent = 0;
  std::string refused_key{};
  std::string until{};  // The key is refused until this file is there.

  // How long the destination is busy with an event: the event says so, in microseconds.
  static std::chrono::microseconds cost(const EventView& event) {
    return std::chrono::microseconds(event.schema_version.value_or(0));
  }
};

// So much work a destination takes in advance: a thousand events at 25 microseconds.
constexpr auto queue_max = 25ms;

class FlakySink final : public Sink {
 public:
  FlakySink(const std::string& log, Mood mood) : log_(log), mood_(std::move(mood)) {}

  void submit(const EventView& event, std::uint64_t ticket) override {
    const bool fails = refuses(event) || chance_(random_) < mood_.fail_percent;
    log_.add(event.version.value_or(-1), !fails);
    busy_until_ = std::max(busy_until_, std::chrono::steady_clock::now()) + mood_.cost(event);
    if (fails) {
      outcomes_.push_back({.ticket = ticket, .kind = Outcome::Kind::retry, .reason = "not this time"});
    } else {
      outcomes_.push_back({.ticket = ticket});
    }
  }

  void collect(std::vector<Outcome>& outcomes, Steady /*deadline*/) override {
    log_.flush();
    std::this_thread::sleep_until(busy_until_ - queue_max);
    outcomes.insert(outcomes.end(), outcomes_.begin(), outcomes_.end());
    outcomes_.clear();
  }

 private:
  bool refuses(const EventView& event) {
    if (mood_.refused_key.empty() || event.key != mood_.refused_key) return false;
    if (std::filesystem::exists(mood_.until)) mood_.refused_key.clear();
    return !mood_.refused_key.empty();
  }

  DeliveryWriter log_;
  Mood mood_;
  std::vector<Outcome> outcomes_;
  Steady busy_until_{};
  std::mt19937_64 random_{std::random_device{}()};
  std::uniform_real_distribution<double> chance_{0, 100};
};

// Asks for a stop when somebody asks us to end.
void stop_at_sigterm(std::stop_source stop) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::thread([signals, stop]() mutable {
    int number = 0;
    sigwait(&signals, &number);
    stop.request_stop();
  }).detach();
}

}  // namespace
}  // namespace waybill::bench

int main(int argc, char** argv) {
  using namespace waybill::bench;
  using namespace std::chrono_literals;
  CLI::App app("A relay whose destination fails now and then.");
  std::string store_url;
  std::string log;
  Mood mood;
  waybill::RelayOptions options;
  waybill::DestinationOptions destination;
  app.add_option("--store", store_url)->required();
  app.add_option("--name", options.name)->required();
  app.add_option("--destination", destination.name)->required();
  app.add_option("--log", log, "Where deliveries are written to")->required();
  app.add_option("--fail-percent", mood.fail_percent);
  app.add_option("--refuse", mood.refused_key, "A key none of whose events is taken");
  app.add_option("--until", mood.until, "Until this file is there");
  CLI11_PARSE(app, argc, argv);
  try {
    std::stop_source stop;
    stop_at_sigterm(stop);
    if (!mood.refused_key.empty()) destination.retry = {.attempts = 0, .first_delay = 1s, .max_delay = 1s};
    const auto store = waybill::postgres_store({.url = store_url});
    waybill::Relay relay(*store, options);
    relay.add(destination, std::make_unique<FlakySink>(log, mood));
    relay.run(stop.get_token());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "flaky_relay: %s\n", error.what());
    return 1;
  }
}
