// moody_relay STORE DESTINATION: relays what is there to a destination that answers by an event's topic, so that the
// tests of the command line have dead letters, held events and blocked keys to work on.
//   dead.…  rejected      held.…  unknown, and held      retry.…  not this time      anything else  delivered
// It uses the installed interface only.
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/postgres.h"
#include "waybill/relay.h"
#include "waybill/sink.h"
#include "waybill/sqlite.h"
#include "waybill/store.h"

namespace {

using namespace std::chrono_literals;

class MoodySink final : public waybill::Sink {
 public:
  void submit(const waybill::EventView& event, std::uint64_t ticket) override {
    using Kind = waybill::Outcome::Kind;
    if (event.topic.starts_with("dead.")) {
      outcomes_.push_back({ticket, Kind::rejected, "no such exchange 'clinic'"});
    } else if (event.topic.starts_with("held.")) {
      outcomes_.push_back({ticket, Kind::unknown, "the answer was lost"});
    } else if (event.topic.starts_with("retry.")) {
      outcomes_.push_back({ticket, Kind::retry, "not now"});
    } else {
      outcomes_.push_back({ticket, Kind::delivered, ""});
    }
  }

  void collect(std::vector<waybill::Outcome>& outcomes, waybill::Steady /*deadline*/) override {
    outcomes.insert(outcomes.end(), outcomes_.begin(), outcomes_.end());
    outcomes_.clear();
  }

 private:
  std::deque<waybill::Outcome> outcomes_;
};

std::unique_ptr<waybill::Store> open_store(const std::string& url) {
  constexpr std::string_view embedded = "sqlite:";
  if (!url.starts_with(embedded)) return waybill::postgres_store({.url = url});
  return waybill::sqlite_store({.path = url.substr(embedded.size()), .state_path = ""});
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fputs("usage: moody_relay STORE DESTINATION\n", stderr);
    return 2;
  }
  const auto store = open_store(argv[1]);
  waybill::Relay relay(*store, {});
  waybill::DestinationOptions destination;
  destination.name = argv[2];
  destination.on_unknown = waybill::OnUnknown::hold;
  destination.retry.first_delay = 24h;
  destination.retry.max_delay = 24h;
  relay.add(destination, std::make_unique<MoodySink>());
  std::stop_source stop;
  relay.drain(stop.get_token());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "moody_relay: %s\n", error.what());
  return 1;
}
