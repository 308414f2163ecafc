#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "base/error_text.h"
#include "base/waker.h"
#include "net/expiry.h"
#include "sink/rabbitmq/options.h"
#include "sink/rabbitmq/publisher.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using rabbitmq::Dresser;
using rabbitmq::Publisher;

// Submitted events are handed over at the next collect(), or when there are this many: while the rest is still being
// submitted, the first are on their way.
constexpr std::size_t hand_over_size = 128;
// How long the last words to a broker may take, that a connection ends.
constexpr auto goodbye_time = 500ms;
// After an exception that nothing could be done about, as when memory is short.
constexpr auto failure_pause = 100ms;

struct Item {
  const EventView* event = nullptr;
  std::uint64_t ticket = 0;
};

// Two threads: the caller's, and ours, which alone touches the connection. They exchange batches under `mutex_`.
// Whatever happens before a close() belongs to an older round than what happens after it, and is dropped.
class RabbitmqSink final : public Sink {
 public:
  RabbitmqSink(RabbitmqOptions options, Log log)
      : options_(std::move(options)),
        log_(std::move(log)),
        patience_(waker_, [this] { return stop_ || round_ != working_round_; }),
        dresser_(options_),
        thread_([this] { run(); }) {}

  ~RabbitmqSink() override {
    stop_ = true;
    waker_.wake();
    thread_.join();
  }
  RabbitmqSink(const RabbitmqSink&) = delete;
  RabbitmqSink& operator=(const RabbitmqSink&) = delete;

  void submit(const EventView& event, std::uint64_t ticket) override {
    submitted_.push_back({&event, ticket});
    if (submitted_.size() >= hand_over_size) hand_over();
  }

  void collect(std::vector<Outcome>& outcomes, Steady deadline) override {
    hand_over();
    std::unique_lock lock(mutex_);
    told_.wait_until(lock, deadline, [this] { return !outcomes_.empty(); });
    if (outcomes.empty()) {
      outcomes.swap(outcomes_);
    } else {
      std::move(outcomes_.begin(), outcomes_.end(), std::back_inserter(outcomes));
      outcomes_.clear();
    }
  }

  std::size_t in_flight_max() const override { return options_.in_flight_max; }

  std::optional<Time> trusted_until() const override { return expiry_.until(); }

  Outcome probe(Steady deadline) override {
    std::unique_lock lock(mutex_);
    const std::uint64_t asked = ++probes_asked_;
    waker_.wake();
    if (!told_.wait_until(lock, deadline, [&] { return probes_answered_ >= asked; }))
      return {.kind = Outcome::Kind::unavailable, .reason = "still connecting to " + names_of_hosts()};
    return probe_answer_;
  }

  void close(Steady deadline) override {
    submitted_.clear();
    std::unique_lock lock(mutex_);
    const std::uint64_t round = ++round_;
    incoming_.clear();
    outcomes_.clear();
    waker_.wake();
    told_.wait_until(lock, deadline, [&] { return closed_round_ >= round; });
    lock.unlock();
    // From here on no event of an older round is looked at.
    const std::scoped_lock reading(reading_events_);
  }

 private:
  // --- The caller's thread

  void hand_over() {
    if (submitted_.empty()) return;
    {
      const std::scoped_lock lock(mutex_);
      incoming_.insert(incoming_.end(), submitted_.begin(), submitted_.end());
    }
    submitted_.clear();
    waker_.wake();
  }

  std::string names_of_hosts() const {
    std::string names;
    for (const net::Host& host : options_.hosts) names += (names.empty() ? "" : ", ") + host.text();
    return names;
  }

  // --- Our thread

  void run() {
    while (!stop_) try {
        turn();
      } catch (const std::exception& failure) {
        // Out of memory, even to say so: whatever is under way keeps its place, and is told of at the next turn.
        log_failure(failure);
        pause_after_failure();
      }
    if (publisher_) publisher_->close(std::chrono::steady_clock::now() + goodbye_time);
  }

  void turn() {
    if (round_ != working_round_) begin_round();
    const std::uint64_t probes = take_orders();
    if (!publisher_ && (!pending_.empty() || probes > 0)) connect();
    if (publisher_) work();
    tell(probes);
    if (!busy()) wait();
  }

  void log_failure(const std::exception& failure) const noexcept {
    try {
      log_.error("the destination's thread has failed; will try again",
                 {{"destination", options_.name}, {"error", error_text(failure)}});
    } catch (const std::exception&) {
      return;
    }
  }

  void pause_after_failure() { std::this_thread::sleep_for(failure_pause); }

  bool busy() const { return stop_ || (publisher_ && !pending_.empty() && publisher_->has_room()); }

  void wait() {
    if (!publisher_) {
      waker_.wait(std::chrono::steady_clock::now() + 1h);
    } else {
      waker_.wait(publisher_->work_at(std::chrono::steady_clock::now()), publisher_->fd(),
                  publisher_->waits_for_room());
    }
  }

  void begin_round() {
    pending_.clear();
    found_.clear();
    working_round_ = round_;  // First of all: until then every wait is called off.
    if (publisher_) publisher_->close(std::chrono::steady_clock::now() + goodbye_time);
    publisher_.reset();
    call_again();
    const std::scoped_lock lock(mutex_);
    closed_round_ = working_round_;
    told_.notify_all();
  }

  // Returns the number of the last probe that was asked for and has no answer; 0 if there is none.
  std::uint64_t take_orders() {
    const std::scoped_lock lock(mutex_);
    if (round_ == working_round_) {
      pending_.insert(pending_.end(), incoming_.begin(), incoming_.end());
      incoming_.clear();
    }
    return probes_asked_ > probes_answered_ ? probes_asked_ : 0;
  }

  // A wait for the broker hears a call and does not answer it: it is to be heard again.
  void call_again() { waker_.wake(); }

  // One try at each host, beginning with the one that was good last.
  void connect() {
    std::string reasons;
    for (std::size_t i = 0; i < options_.hosts.size(); ++i) {
      const net::Host& host = options_.hosts[host_];
      try {
        publisher_.emplace(options_, host, patience_, dresser_,
                           std::chrono::steady_clock::now() + options_.connect_timeout);
        expiry_.note(publisher_->trusted_until());
        said_blocked_ = false;
        call_again();
        log_.info("connected", {{"destination", options_.name}, {"broker", publisher_->where()}});
        return;
      } catch (const std::exception& error) {
        publisher_.reset();
        reasons += (reasons.empty() ? "" : "; ") + error_text(error);
        host_ = (host_ + 1) % options_.hosts.size();
      }
    }
    call_again();
    give_up(reasons);
  }

  void work() {
    const Steady now = std::chrono::steady_clock::now();
    try {
      publish(now);
      publisher_->work(found_, now);
      note_blocked();
    } catch (const std::exception& error) {
      const std::string reason = error_text(error);
      publisher_->lost(reason, found_);
      log_.warning("the connection is over", {{"destination", options_.name}, {"error", reason}});
      give_up(reason);
      publisher_.reset();
      call_again();
      host_ = (host_ + 1) % options_.hosts.size();
    }
  }

  void publish(Steady now) {
    const std::scoped_lock reading(reading_events_);
    if (round_ != working_round_) return;
    while (!pending_.empty() && publisher_->has_room()) {
      const Item item = pending_.front();
      publisher_->publish(*item.event, item.ticket, found_, now);
      pending_.pop_front();  // Not earlier: should that throw, it is still to be answered for.
    }
  }

  // While the broker holds us off, nothing new is taken: the breaker opens, and everybody can see why.
  void note_blocked() {
    const std::string& reason = publisher_->blocked();
    if (!reason.empty()) give_up(blocked_reason());
    if (std::exchange(said_blocked_, !reason.empty()) == !reason.empty()) return;
    if (reason.empty()) {
      log_.info("the broker takes messages again", {{"destination", options_.name}});
    } else {
      log_.warning("the broker takes no messages for now",
                   {{"destination", options_.name}, {"error", blocked_reason()}});
    }
  }

  std::string blocked_reason() const {
    return fmt::format("{}: blocked by the broker, which is short of something: {}; free memory or disk there",
                       publisher_->where(), publisher_->blocked());
  }

  // What was not sent certainly did not arrive.
  void give_up(const std::string& reason) {
    away_ = reason;
    for (; !pending_.empty(); pending_.pop_front())
      found_.push_back({.ticket = pending_.front().ticket, .kind = Outcome::Kind::unavailable, .reason = reason});
  }

  void tell(std::uint64_t probes) {
    if (found_.empty() && probes == 0) return;
    const std::scoped_lock lock(mutex_);
    if (round_ == working_round_) {
      if (outcomes_.empty()) {
        outcomes_.swap(found_);
      } else {
        std::move(found_.begin(), found_.end(), std::back_inserter(outcomes_));
      }
    }
    found_.clear();
    if (probes > 0) {
      const bool good = publisher_ && publisher_->blocked().empty();
      probe_answer_ = good ? Outcome{} : Outcome{.kind = Outcome::Kind::unavailable, .reason = away_};
      probes_answered_ = probes;
    }
    told_.notify_all();
  }

  // Constant after construction.
  const RabbitmqOptions options_;
  const Log log_;

  // The caller's.
  std::vector<Item> submitted_;

  // Both threads'.
  Waker waker_;  // our thread
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> round_{0};
  std::mutex reading_events_;  // Held while events are looked at; close() waits for it.
  std::mutex mutex_;           // For what follows.
  std::condition_variable told_;
  std::vector<Item> incoming_;
  std::vector<Outcome> outcomes_;
  std::uint64_t probes_asked_ = 0;
  std::uint64_t probes_answered_ = 0;
  Outcome probe_answer_;
  std::uint64_t closed_round_ = 0;

  net::Expiry expiry_;

  // Our thread's.
  std::uint64_t working_round_ = 0;
  const net::Patience patience_;
  Dresser dresser_;
  std::optional<Publisher> publisher_;
  std::deque<Item> pending_;
  std::vector<Outcome> found_;
  std::string away_;  // Why nothing was sent, when last.
  std::size_t host_ = 0;
  bool said_blocked_ = false;

  std::thread thread_;  // Last: it uses all the others.
};

}  // namespace

std::unique_ptr<Sink> rabbitmq_sink(RabbitmqOptions options, Log log) {
  WAYBILL_ASSERT(!options.hosts.empty() && options.exchange && options.routing_key && options.encode);
  return std::make_unique<RabbitmqSink>(std::move(options), std::move(log));
}

}  // namespace waybill
