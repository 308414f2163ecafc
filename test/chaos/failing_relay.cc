// failing_relay STORE FILE [--once] [--lease MS] [--block] [--reject PERCENT] [--fail PERCENT] [--outages]: a relay for
// one destination, "out", that appends to FILE what it delivers. It uses the installed interface, and the file sink.
//   --reject  So many events are rejected until a person has sent them on their way again.
//   --fail    So many fail at every other attempt, by a retry or by an answer that is lost; they do not arrive.
//   --outages Nothing arrives in two of every twenty fifths of a second.
//   --block   The key of a dead event waits for a person; else it goes on.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <random>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "waybill/log.h"
#include "waybill/postgres.h"
#include "waybill/relay.h"
#include "waybill/sink.h"
#include "waybill/store.h"

#include "sink/file/file_sink.h"

namespace {

using namespace std::chrono_literals;
using Kind = waybill::Outcome::Kind;

struct Options {
  std::string store{};
  std::string file{};
  bool once = false;
  bool block = false;
  bool outages = false;
  std::size_t reject = 0;
  std::size_t fail = 0;
  std::chrono::milliseconds lease{2'000};
};

class FailingSink final : public waybill::Sink {
 public:
  explicit FailingSink(const Options& options)
      : options_(options), file_(waybill::file_sink({.path = options.file, .fsync = false})) {}

  void submit(const waybill::EventView& event, std::uint64_t ticket) override {
    const std::string reason = objection(event);
    if (reason.empty()) {
      file_->submit(event, ticket);
      ++in_file_;
    } else {
      answers_.push_back({ticket, kind_, reason});
    }
  }

  void collect(std::vector<waybill::Outcome>& outcomes, waybill::Steady deadline) override {
    const std::size_t before = outcomes.size();
    if (in_file_ > 0) file_->collect(outcomes, answers_.empty() ? deadline : waybill::Steady{});
    in_file_ -= outcomes.size() - before;
    outcomes.insert(outcomes.end(), answers_.begin(), answers_.end());
    answers_.clear();
  }

  waybill::Outcome probe(waybill::Steady) override {
    return away() ? waybill::Outcome{0, Kind::unavailable, "away"} : waybill::Outcome{};
  }

  void close(waybill::Steady deadline) override {
    answers_.clear();
    in_file_ = 0;
    file_->close(deadline);
  }

 private:
  // Empty if the event may arrive; otherwise kind_ is set.
  std::string objection(const waybill::EventView& event) {
    const std::size_t number = std::hash<std::string>{}(event.id.to_string());
    const std::size_t percent = number % 100;
    if (away()) {
      kind_ = Kind::unavailable;
      return "away";
    }
    if (percent < options_.reject && event.redrives < 1 + static_cast<int>(number / 100 % 4)) {
      kind_ = Kind::rejected;
      return "no such exchange";
    }
    if (percent >= 100 - options_.fail && random_() % 2 == 0) {
      kind_ = random_() % 4 == 0 ? Kind::unknown : Kind::retry;
      return "not now";
    }
    return "";
  }

  bool away() const { return options_.outages && std::chrono::system_clock::now().time_since_epoch() / 200ms % 20 < 2; }

  const Options& options_;
  const std::unique_ptr<waybill::Sink> file_;
  std::size_t in_file_ = 0;
  std::deque<waybill::Outcome> answers_;
  Kind kind_ = Kind::delivered;
  std::minstd_rand random_{std::random_device{}()};
};

Options parse(const std::vector<std::string>& arguments) {
  Options options;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (!name.starts_with("--")) rest.push_back(name);
    if (name == "--once") options.once = true;
    if (name == "--block") options.block = true;
    if (name == "--outages") options.outages = true;
    if (name == "--reject") options.reject = std::stoul(arguments.at(++i));
    if (name == "--fail") options.fail = std::stoul(arguments.at(++i));
    if (name == "--lease") options.lease = std::chrono::milliseconds(std::stol(arguments.at(++i)));
  }
  options.store = rest.at(0);
  options.file = rest.at(1);
  return options;
}

// Ends when asked to; the signals are blocked in all threads, and waited for in this one.
void run(waybill::Relay& relay) {
  sigset_t signals{};
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::jthread thread([&](const std::stop_token& stop) { relay.run(stop); });
  int number = 0;
  sigwait(&signals, &number);
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse({argv + 1, argv + argc});
  const waybill::Log log = waybill::stderr_log(waybill::LogLevel::info, waybill::LogFormat::logfmt);
  const auto store = waybill::postgres_store({.url = options.store}, log);
  waybill::Relay relay(*store, {.lease = options.lease}, log);
  waybill::DestinationOptions destination;
  destination.name = "out";
  destination.retry = {.attempts = 0, .first_delay = 20ms, .max_delay = 200ms};
  destination.on_dead = options.block ? waybill::OnDead::block : waybill::OnDead::go_on;
  relay.add(destination, std::make_unique<FailingSink>(options));
  if (options.once) {
    relay.drain({});
  } else {
    run(relay);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "failing_relay: %s\n", error.what());
  return 1;
}
