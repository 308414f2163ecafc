#pragma once

#include <atomic>
#include <utility>

#include "waybill/error.h"
#include "waybill/store.h"

namespace waybill {

// A store whose connection breaks at the Nth call (1, 2, …), before or after the call took effect; then all is well
// again. Everything made before the break is broken for good, as a real connection would be.
class BreaksAt final : public Store {
 public:
  enum class Moment { before, after };

  BreaksAt(Store& target, int call, Moment moment) : target_(target), call_(call), moment_(moment) {}

  bool broke() const { return count_ >= call_; }

  template <typename Call>
  auto guard(const Call& call) {
    const bool breaks = ++count_ == call_;
    if (breaks && moment_ == Moment::before) throw Error(Remedy::retry, "the connection broke");
    if constexpr (std::is_void_v<decltype(call())>) {
      call();
      if (breaks) throw Error(Remedy::unknown, "the connection broke while waiting for the answer");
    } else {
      auto result = call();
      if (breaks) throw Error(Remedy::unknown, "the connection broke while waiting for the answer");
      return result;
    }
  }

  std::unique_ptr<Schema> schema() override { return target_.schema(); }
  std::unique_ptr<Writer> writer() override { return target_.writer(); }
  std::unique_ptr<Inspector> inspector() override { return target_.inspector(); }
  std::unique_ptr<Follower> follow() override { return target_.follow(); }
  std::string describe() const override { return target_.describe(); }

  std::unique_ptr<Membership> join(const RelayIdentity& relay) override {
    return std::make_unique<BreakingMembership>(*this, guard([&] { return target_.join(relay); }));
  }
  std::unique_ptr<Session> connect(const RelayIdentity& relay, const std::string& destination) override {
    return std::make_unique<BreakingSession>(*this, guard([&] { return target_.connect(relay, destination); }));
  }

 private:
  class BreakingSession final : public Session {
   public:
    BreakingSession(BreaksAt& store, std::unique_ptr<Session> target) : store_(store), target_(std::move(target)) {}
    std::vector<Lease> open(std::span<const Lease> leases, Start start, bool again) override {
      return store_.guard([&] { return target_->open(leases, start, again); });
    }
    void close(std::span<const std::int32_t> shards) override { target_->close(shards); }
    Reading exchange(std::span<const Settlement> settled, const Appetite& appetite) override {
      return store_.guard([&] { return target_->exchange(settled, appetite); });
    }
    void keep_up() override {
      store_.guard([&] { target_->keep_up(); });
    }
    std::shared_ptr<const void> load(EventView& event) override {
      return store_.guard([&] { return target_->load(event); });
    }
    void release(std::span<const Lease> leases) override {
      store_.guard([&] { target_->release(leases); });
    }

   private:
    BreaksAt& store_;
    std::unique_ptr<Session> target_;
  };

  class BreakingMembership final : public Membership {
   public:
    BreakingMembership(BreaksAt& store, std::unique_ptr<Membership> target)
        : store_(store), target_(std::move(target)) {}
    Pulse beat(std::span<const std::string> destinations) override {
      return store_.guard([&] { return target_->beat(destinations); });
    }
    std::vector<Lease> take(std::span<const Lease> free) override {
      return store_.guard([&] { return target_->take(free); });
    }
    bool poll() override {
      return store_.guard([&] { return target_->poll(); });
    }
    bool sleep() override {
      return store_.guard([&] { return target_->sleep(); });
    }
    void rise() override {
      store_.guard([&] { target_->rise(); });
    }
    Told wait(Waker& waker, Steady deadline) override {
      return store_.guard([&] { return target_->wait(waker, deadline); });
    }
    void leave() override {
      store_.guard([&] { target_->leave(); });
    }

   private:
    BreaksAt& store_;
    std::unique_ptr<Membership> target_;
  };

  Store& target_;
  const int call_;
  const Moment moment_;
  std::atomic<int> count_{0};
};

}  // namespace waybill
