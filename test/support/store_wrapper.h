#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "waybill/error.h"
#include "waybill/store.h"

namespace waybill {

// One call to a session or a membership, or one that makes them.
struct StoreCall {
  std::string_view name{};
  std::string_view destination{};  // Empty for a membership's.
};

// A store that lets a test stand around every call: it decides when the call is run, and what happens before and after;
// what it throws comes out of the call.
class WrappedStore : public Store {
 public:
  using Around = std::function<void(const StoreCall& call, const std::function<void()>& run)>;

  explicit WrappedStore(Store& target, Around around = {}) : target_(target), around_(std::move(around)) {}

  void around(Around around) { around_ = std::move(around); }
  // Changes what was read, and stands in for Session::load.
  std::function<void(Reading&)> on_reading{};
  std::function<void(EventView&)> on_load{};

  template <typename Call>
  auto run(const StoreCall& name, const Call& call) {
    const Around around = around_;  // It may be exchanged from within.
    if (!around) return call();
    if constexpr (std::is_void_v<decltype(call())>) {
      around(name, call);
    } else {
      decltype(call()) result{};
      around(name, [&] { result = call(); });
      return result;
    }
  }

  std::unique_ptr<Schema> schema() override { return target_.schema(); }
  std::unique_ptr<Writer> writer() override { return target_.writer(); }
  std::unique_ptr<Inspector> inspector() override { return target_.inspector(); }
  std::unique_ptr<Follower> follow() override { return target_.follow(); }
  std::unique_ptr<Operator> operate() override { return target_.operate(); }
  std::unique_ptr<Upkeep> upkeep() override { return target_.upkeep(); }
  std::string describe() const override { return target_.describe(); }

  std::unique_ptr<Membership> join(const RelayIdentity& relay) override {
    return std::make_unique<WrappedMembership>(*this, run({.name = "join"}, [&] { return target_.join(relay); }));
  }
  std::unique_ptr<Session> connect(const RelayIdentity& relay, const std::string& destination) override {
    return std::make_unique<WrappedSession>(
        *this, destination,
        run({.name = "connect", .destination = destination}, [&] { return target_.connect(relay, destination); }));
  }

 private:
  class WrappedSession final : public Session {
   public:
    WrappedSession(WrappedStore& store, std::string destination, std::unique_ptr<Session> target)
        : store_(store), destination_(std::move(destination)), target_(std::move(target)) {}
    std::vector<Opened> open(std::span<const Lease> leases, Start start, bool again) override {
      return store_.run(call("open"), [&] { return target_->open(leases, start, again); });
    }
    void close(std::span<const std::int32_t> shards) override { target_->close(shards); }
    Reading exchange(std::span<const Settlement> settled, const Appetite& appetite) override {
      Reading reading = store_.run(call("exchange"), [&] { return target_->exchange(settled, appetite); });
      if (store_.on_reading) store_.on_reading(reading);
      return reading;
    }
    Fetched fetch(std::span<const Wanted> wanted) override {
      return store_.run(call("fetch"), [&] { return target_->fetch(wanted); });
    }
    void keep_up() override {
      store_.run(call("keep_up"), [&] { target_->keep_up(); });
    }
    std::shared_ptr<const void> load(EventView& event) override {
      return store_.run(call("load"), [&] {
        if (store_.on_load) store_.on_load(event);
        return store_.on_load ? nullptr : target_->load(event);
      });
    }
    Time now() const override { return target_->now(); }
    void release(std::span<const Lease> leases) override {
      store_.run(call("release"), [&] { target_->release(leases); });
    }

   private:
    StoreCall call(std::string_view name) const { return {.name = name, .destination = destination_}; }

    WrappedStore& store_;
    const std::string destination_;
    std::unique_ptr<Session> target_;
  };

  class WrappedMembership final : public Membership {
   public:
    WrappedMembership(WrappedStore& store, std::unique_ptr<Membership> target)
        : store_(store), target_(std::move(target)) {}
    Pulse beat(std::span<const std::string> destinations, bool leaving) override {
      return store_.run({.name = "beat"}, [&] { return target_->beat(destinations, leaving); });
    }
    void report(std::span<const Trouble> troubles) override { target_->report(troubles); }
    std::vector<Lease> take(std::span<const Lease> free) override {
      return store_.run({.name = "take"}, [&] { return target_->take(free); });
    }
    bool poll() override {
      return store_.run({.name = "poll"}, [&] { return target_->poll(); });
    }
    Sleep sleep() override {
      return store_.run({.name = "sleep"}, [&] { return target_->sleep(); });
    }
    void rise() override {
      store_.run({.name = "rise"}, [&] { target_->rise(); });
    }
    Told wait(Waker& waker, Steady deadline) override {
      return store_.run({.name = "wait"}, [&] { return target_->wait(waker, deadline); });
    }
    void leave() override {
      store_.run({.name = "leave"}, [&] { target_->leave(); });
    }

   private:
    WrappedStore& store_;
    std::unique_ptr<Membership> target_;
  };

  Store& target_;
  Around around_;
};

// A store whose connection breaks at the Nth call (1, 2, …), before or after the call took effect; then all is well
// again.
class BreaksAt final : public WrappedStore {
 public:
  enum class Moment { before, after };

  BreaksAt(Store& target, int call, Moment moment)
      : WrappedStore(target,
                     [this, moment](const StoreCall&, const std::function<void()>& run) {
                       const bool breaks = ++count_ == call_;
                       if (breaks && moment == Moment::before) throw Error(Remedy::retry, "the connection broke");
                       run();
                       if (breaks) throw Error(Remedy::unknown, "the connection broke while waiting for the answer");
                     }),
        call_(call) {}

  bool broke() const { return count_ >= call_; }

 private:
  const int call_;
  std::atomic<int> count_{0};
};

}  // namespace waybill
