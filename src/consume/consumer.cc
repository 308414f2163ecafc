#include <algorithm>
#include <atomic>
#include <mutex>

#include <fmt/format.h>

#include "waybill/consume.h"
#include "waybill/inbox.h"

#include "base/assert.h"
#include "base/error_text.h"
#include "consume/backlog.h"
#include "consume/decode.h"
#include "consume/delay.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using consume::delay_after;
using consume::Waiting;
using std::chrono::milliseconds;
using Step = Consumer::Step;

constexpr milliseconds store_delay_first{250};
constexpr milliseconds store_delay_max{10'000};
constexpr milliseconds close_patience{10'000};

Steady now() {
  return std::chrono::steady_clock::now();
}

// What others have made may be of any length.
std::string shortened(const std::string& text) {
  constexpr std::size_t bytes_max = 255;
  return text.size() <= bytes_max ? text : text.substr(0, bytes_max) + "…";
}

class NoException : public std::exception {
 public:
  const char* what() const noexcept override { return "something that is no exception was thrown"; }
};

ConsumerOptions checked(ConsumerOptions options) {
  if (options.attempts < 0 || options.first_delay <= 0ms || options.max_delay < options.first_delay)
    throw Error(Remedy::fix_input,
                "consumer: attempts must not be negative, first_delay more than 0, and max_delay at least as long");
  if (options.tenant.size() > limits::name_bytes_max)
    throw Error(Remedy::fix_input, fmt::format("consumer: the tenant has more than {} bytes", limits::name_bytes_max));
  return options;
}

}  // namespace

class Consumer::Work {
 public:
  Work(ConsumerOptions options, Connection& connection, std::unique_ptr<MessageSource> source, HandleDelivery handle,
       Log log)
      : options_(checked(std::move(options))),
        inbox_(options_.name, options_.schema),
        connection_(connection),
        source_(std::move(source)),
        handle_(std::move(handle)),
        log_(std::move(log)) {
    WAYBILL_ASSERT(source_ && handle_);
  }

  Step step(Steady deadline) {
    take(source_->receive(std::min(deadline, due())));
    Waiting* const next = store_due_ <= now() ? backlog_.next(now()) : nullptr;
    const Step step = next ? handle(*next) : Step::idle;
    note();
    return step;
  }

  void close(Steady deadline) {
    source_->close(deadline);
    backlog_.forget();
    note();
  }

  void wake() noexcept { source_->wake(); }

  ConsumerCounts counts() const {
    const std::scoped_lock lock(mutex_);
    ConsumerCounts counts = told_;
    counts.broker_away = source_->is_away();
    return counts;
  }

 private:
  Steady due() const { return std::max(store_due_, backlog_.due()); }

  void take(MessageSource::Received&& received) {
    if (received.lost) {
      backlog_.forget();
      ++counts_.outages;
    }
    for (Incoming& incoming : received.messages) {
      ++counts_.received;
      Waiting waiting{.ticket = incoming.ticket};
      try {
        if (!incoming.unreadable.empty()) throw Rejection(incoming.unreadable);
        waiting.delivery = consume::decode(incoming, options_.form);
        check_tenant(waiting.delivery);
      } catch (const std::bad_alloc&) {
        return let_go();
      } catch (const std::exception& failure) {
        waiting.delivery = consume::outside_of(incoming);
        waiting.unreadable = error_text(failure);
      }
      backlog_.add(std::move(waiting), now());
    }
  }

  // Out of memory: whatever is here comes again.
  void let_go() {
    log_.error("out of memory; the messages at hand are given back", {{"consumer", options_.name}});
    close(now() + close_patience);
    ++counts_.outages;
  }

  void check_tenant(const Delivery& delivery) const {
    const std::string& tenant = delivery.event.stream.tenant;
    if (!options_.tenant.empty() && tenant != "default" && tenant != options_.tenant)
      throw Rejection(fmt::format("it is of tenant '{}', and this consumer of '{}'", tenant, options_.tenant));
  }

  // Empty: as the database's user is set up.
  std::string tenant_of(const Delivery& delivery) const {
    if (!options_.tenant.empty()) return options_.tenant;
    const std::string& tenant = delivery.event.stream.tenant;
    return tenant == "default" ? std::string() : tenant;
  }

  Step handle(Waiting& waiting) {
    waiting.delivery.attempts = waiting.tries + 1;
    bool begun = false;
    try {
      if (!waiting.unreadable.empty()) throw Rejection(waiting.unreadable);
      const bool first = once(waiting.delivery, begun);
      store_answers();
      ++(first ? counts_.handled : counts_.duplicates);
      source_->accept(waiting.ticket);
      backlog_.settle(waiting.ticket);
      return first ? Step::handled : Step::duplicate;
    } catch (const Rejection& rejection) {
      return give_up(waiting, rejection);
    } catch (const UnknownType& unknown) {
      // Of another event than this one, which the handler has read, a later version of us may know the type.
      if (unknown.type() == waiting.delivery.event.type) return give_up(waiting, unknown);
      return failed(waiting, unknown, true);
    } catch (const Error& error) {
      const bool its_own = is_its_own(waiting, error, begun);
      return begun || its_own ? failed(waiting, error, its_own) : store_fails(waiting, error);
    } catch (const std::exception& error) {
      return failed(waiting, error, true);
    } catch (...) {
      return failed(waiting, NoException(), true);
    }
  }

  bool once(const Delivery& delivery, bool& begun) {
    const EventContextScope because(consume::context_of(delivery));
    return inbox_.once(connection_, delivery.id,
                       [&](Connection& same) {
                         begun = true;
                         store_answers();
                         handle_(same, delivery);
                       },
                       {.transaction = {.tenant = tenant_of(delivery)}});
  }

  // Is it this message's fault?
  bool is_its_own(Waiting& waiting, const Error& error, bool begun) const {
    if (error.remedy() == Remedy::unknown) return false;  // It may be committed: the inbox will tell.
    // Whoever loses the connection once may have been unlucky.
    if (!connection_.usable()) return begun && std::exchange(waiting.was_cut, true);
    // Whether something is not set up, or not for this message, is told by the others.
    if (error.remedy() == Remedy::fix_config) return waiting.tries > 0 && waiting.others < counts_.handled;
    return begun || error.remedy() == Remedy::fix_input;
  }

  Step failed(Waiting& waiting, const std::exception& failure, bool its_own) {
    if (its_own) ++waiting.failures;
    if (its_own && options_.attempts > 0 && waiting.failures >= options_.attempts) return give_up(waiting, failure);
    put_off(waiting, failure, "a message could not be handled; it is tried again");
    return Step::failed;
  }

  Step give_up(Waiting& waiting, const std::exception& failure) {
    if (!source_->keeps_rejected()) {
      put_off(waiting, failure, "a message cannot be handled, and not be given up: what is rejected is lost here");
      return Step::failed;
    }
    ++counts_.failed;
    ++counts_.rejected;
    const std::string text = error_text(failure);
    tell(waiting, failure, text, "a message is given up");
    source_->reject(waiting.ticket, text);
    backlog_.settle(waiting.ticket);
    return Step::rejected;
  }

  void put_off(Waiting& waiting, const std::exception& failure, std::string_view what) {
    ++counts_.failed;
    delay(waiting);
    tell(waiting, failure, error_text(failure), what);
  }

  void delay(Waiting& waiting) {
    ++waiting.tries;
    waiting.others = counts_.handled;
    waiting.due = now() + delay_after(waiting.tries, options_.first_delay, options_.max_delay);
  }

  void tell(const Waiting& waiting, const std::exception& failure, const std::string& text, std::string_view what) {
    const Delivery& delivery = waiting.delivery;
    log_.warning(what, {{"consumer", options_.name},
                        {"message", shortened(delivery.id)},
                        {"type", shortened(delivery.event.type)},
                        {"tenant", shortened(delivery.event.stream.tenant)},
                        {"address", shortened(delivery.address)},
                        {"attempt", std::to_string(delivery.attempts)},
                        {"error", text}});
    if (!options_.on_failure) return;
    try {
      options_.on_failure(delivery, failure);
    } catch (...) {
      log_.error("on_failure has thrown, which it must not", {{"consumer", options_.name}});
    }
  }

  // Nothing of a message was tried: it is the database's own affair. If it answers, and what it refuses is this
  // message's inbox, others have their turn meanwhile.
  Step store_fails(Waiting& waiting, const Error& error) {
    if (connection_.usable() && error.remedy() == Remedy::fix_config) delay(waiting);
    ++store_failures_;
    store_due_ = now() + delay_after(store_failures_, store_delay_first, store_delay_max);
    if (store_failures_ == 1 || store_trouble_ != error.what())
      log_.warning("the database cannot be used; messages wait",
                   {{"consumer", options_.name}, {"error", error.what()}});
    store_trouble_ = error.what();
    return Step::idle;
  }

  void store_answers() {
    store_due_ = {};
    if (std::exchange(store_failures_, 0) > 0)
      log_.info("the database can be used again", {{"consumer", options_.name}});
    store_trouble_.clear();
  }

  void note() {
    counts_.waiting = backlog_.size();
    counts_.retrying = backlog_.retrying();
    counts_.store_away = store_failures_ > 0;
    const std::scoped_lock lock(mutex_);
    told_ = counts_;
  }

  const ConsumerOptions options_;
  const Inbox inbox_;
  Connection& connection_;
  const std::unique_ptr<MessageSource> source_;
  const HandleDelivery handle_;
  const Log log_;

  // The thread's own.
  consume::Backlog backlog_;
  ConsumerCounts counts_;
  int store_failures_ = 0;
  Steady store_due_{};
  std::string store_trouble_;

  // Everybody's.
  mutable std::mutex mutex_;
  ConsumerCounts told_;
};

Consumer::Consumer(ConsumerOptions options, Connection& connection, std::unique_ptr<MessageSource> source,
                   HandleDelivery handle, Log log)
    : work_(std::make_unique<Work>(std::move(options), connection, std::move(source), std::move(handle),
                                   std::move(log))) {}

Consumer::~Consumer() = default;

void Consumer::run(const std::stop_token& stop) {
  const std::stop_callback wakes(stop, [this] { work_->wake(); });
  while (!stop.stop_requested()) step(Steady::max());
  close(now() + close_patience);
}

Step Consumer::step(Steady deadline) {
  return work_->step(deadline);
}

void Consumer::close(Steady deadline) {
  work_->close(deadline);
}

ConsumerCounts Consumer::counts() const {
  return work_->counts();
}

}  // namespace waybill
