#include "waybill/relay.h"

#include <algorithm>
#include <array>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "relay/carrier.h"
#include "relay/keeper.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// How long a loop may wait without a look at the clock and its orders.
constexpr auto longest_wait = 1s;

std::string host_and_process() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}:{}", host.data(), ::getpid());
}

template <typename Value>
void check_range(std::string_view name, Value value, Value least, Value most, std::string_view range) {
  if (value < least || value > most)
    throw Error(Remedy::fix_config, fmt::format("{} is out of range; allowed: {}", name, range));
}

RelayOptions checked(RelayOptions options) {
  options.validate();
  if (options.name.empty()) options.name = host_and_process();
  return options;
}

}  // namespace

void RelayOptions::validate() const {
  check_range("batch", batch, 1, 10'000, "1 to 10000");
  check_range<std::size_t>("read_ahead", read_ahead_bytes_max, 1024 * 1024, std::size_t{4} << 30U, "1MiB to 4GiB");
  check_range<std::chrono::milliseconds>("settle_interval", settle_interval, 0ms, 10s, "0s to 10s");
  check_range<std::chrono::milliseconds>("poll_busy", poll_busy, 1ms, 60s, "1ms to 60s");
  check_range<std::chrono::milliseconds>("poll_idle", poll_idle, 10ms, 60s, "10ms to 60s");
  check_range<std::chrono::milliseconds>("lease", lease, 500ms, 10min, "500ms to 10m");
  check_range<std::chrono::milliseconds>("grace", grace, 0ms, 1h, "0s to 1h");
}

// A keeper that cannot reach the store still turns, if slowly: a connection takes its time to fail.
bool RelayHealth::alive() const {
  constexpr auto longest_connect = 1min;
  return !running || since_beat < 3 * lease || (!store_up && since_turn < 3 * lease + longest_connect);
}

class Relay::Impl {
 public:
  Impl(Store& store, RelayOptions options, Log log, const Clock& clock)
      : context_{.store = store,
                 .options = checked(std::move(options)),
                 .identity = {.name = context_.options.name, .lease = context_.options.lease},
                 .log = std::move(log),
                 .clock = clock} {
    begin_anew();
  }

  void add(DestinationOptions destination, std::unique_ptr<Sink> sink) {
    if (find(destination.name))
      throw Error(Remedy::fix_config, fmt::format("destination '{}' is named twice", destination.name));
    context_.identity.rules[destination.name] = destination.match;
    carriers_.push_back(std::make_unique<Carrier>(context_, trust_, keeper_waker_, std::move(destination),
                                                  std::move(sink), carriers_.empty()));
  }

  void work(std::stop_token stop, bool until_drained) {
    context_.log.info("relay started", {{"relay", context_.identity.name}, {"store", context_.store.describe()}});
    vitals_.start(context_.clock.steady());
    Steady deadline{};
    {
      const std::stop_callback wake(stop, [this] { keeper_waker_.wake(); });
      Crew crew(carriers_);
      try {
        for (const auto& carrier : carriers_)
          crew.start([this, &carrier](const std::stop_token& token) { carry(*carrier, token); });
        keep(stop, until_drained);
      } catch (...) {
        failed_with(std::current_exception());
      }
      deadline = context_.clock.steady() + context_.options.grace;
      finish(deadline);
    }
    // Only when nothing of ours is on its way any more may others take our leases.
    for (const auto& carrier : carriers_) carrier->close(deadline);
    keeper_->leave();
    vitals_.stop();
    context_.log.info("relay stopped", {{"relay", context_.identity.name}});
    begin_anew();
    if (const auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
  }

  std::size_t step() {
    std::size_t done = keeper_->turn();
    for (const auto& carrier : carriers_) done += carrier->step();
    return done;
  }

  void hint() noexcept {
    for (const auto& carrier : carriers_) carrier->news();
  }

  RelayCounts counts(const std::string& destination) const {
    const Carrier* carrier = find(destination);
    return carrier ? carrier->counts() : RelayCounts{};
  }

  void report(std::string trouble) { vitals_.report(std::move(trouble)); }

  RelayHealth health() const { return vitals_.read(context_.clock.steady(), context_.options.lease); }

 private:
  Carrier* find(const std::string& name) const {
    const auto place =
        std::find_if(carriers_.begin(), carriers_.end(), [&](const auto& carrier) { return carrier->name() == name; });
    return place == carriers_.end() ? nullptr : place->get();
  }

  // The carriers' threads. They are stopped and waited for when it goes, however that comes about.
  class Crew {
   public:
    explicit Crew(const std::vector<std::unique_ptr<Carrier>>& carriers) : carriers_(carriers) {}
    Crew(const Crew&) = delete;
    Crew& operator=(const Crew&) = delete;
    ~Crew() {
      stop_.request_stop();
      for (const auto& carrier : carriers_) carrier->news();
    }

    template <typename Work>
    void start(Work work) {
      threads_.emplace_back([work = std::move(work), token = stop_.get_token()] { work(token); });
    }

   private:
    const std::vector<std::unique_ptr<Carrier>>& carriers_;
    std::stop_source stop_;
    std::vector<std::jthread> threads_;
  };

  // A carrier's thread. If it fails the others still finish what they have begun.
  void carry(Carrier& carrier, const std::stop_token& stop) {
    try {
      while (!stop.stop_requested())
        if (carrier.step() == 0) carrier.wait(context_.clock.steady() + longest_wait);
    } catch (...) {
      carrier.abandon();
      failed_with(std::current_exception());
      keeper_waker_.wake();
    }
  }

  // The first failure is the one that is told.
  void failed_with(std::exception_ptr failure) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::move(failure);
  }

  bool failed() {
    const std::lock_guard lock(failure_mutex_);
    return failure_ != nullptr;
  }

  bool drained() const {
    return keeper_->nothing_free() &&
           std::all_of(carriers_.begin(), carriers_.end(), [](const auto& carrier) { return carrier->idle(); });
  }

  // The keeper's loop, on the caller's thread.
  void keep(const std::stop_token& stop, bool until_drained) {
    while (!stop.stop_requested() && !failed() && !(until_drained && drained()))
      if (keeper_->turn() == 0) keeper_->wait(context_.clock.steady() + (until_drained ? 50ms : longest_wait));
  }

  // Lets the carriers finish what is under way and give their leases back; goes on saying "alive" meanwhile.
  void finish(Steady deadline) {
    bool keeping = true;
    const auto busy = [this] {
      return std::any_of(carriers_.begin(), carriers_.end(), [](const auto& carrier) { return carrier->busy(); });
    };
    keeper_->wind_up();
    while (busy() && context_.clock.steady() < deadline) {
      const Steady soon = std::min(deadline, context_.clock.steady() + 2ms);
      try {
        if (!keeping) {
          keeper_waker_.wait(soon);
        } else if (keeper_->turn() == 0) {
          keeper_->wait(soon);
        }
      } catch (...) {  // The carriers have the rest of the trust to finish in.
        keeping = false;
        failed_with(std::current_exception());
      }
    }
    if (busy())
      context_.log.warning("the grace period is over; what is still under way may be sent again",
                           {{"relay", context_.identity.name}});
  }

  // Another run is another relay, to others and to itself.
  void begin_anew() {
    trust_.extend({});
    context_.identity.id = EventId::make().to_string();
    keeper_.emplace(context_, trust_, vitals_, keeper_waker_, carriers_);
  }

  RelayContext context_;
  Trust trust_;
  Vitals vitals_;
  Waker keeper_waker_;
  std::vector<std::unique_ptr<Carrier>> carriers_;
  std::optional<Keeper> keeper_;
  std::mutex failure_mutex_;
  std::exception_ptr failure_;  // guarded by failure_mutex_
};

Relay::Relay(Store& store, RelayOptions options, Log log, const Clock& clock)
    : impl_(std::make_unique<Impl>(store, std::move(options), std::move(log), clock)) {}

Relay::~Relay() = default;

void Relay::add(DestinationOptions destination, std::unique_ptr<Sink> sink) {
  impl_->add(std::move(destination), std::move(sink));
}
void Relay::run(std::stop_token stop) {
  impl_->work(std::move(stop), false);
}
void Relay::drain(std::stop_token stop) {
  impl_->work(std::move(stop), true);
}
std::size_t Relay::step() {
  return impl_->step();
}
void Relay::hint() noexcept {
  impl_->hint();
}
void Relay::report(std::string trouble) {
  impl_->report(std::move(trouble));
}
RelayCounts Relay::counts(const std::string& destination) const {
  return impl_->counts(destination);
}
RelayHealth Relay::health() const {
  return impl_->health();
}

}  // namespace waybill
