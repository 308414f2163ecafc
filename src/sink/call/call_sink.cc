#include <exception>
#include <utility>

#include <fmt/format.h>

#include "waybill/sink.h"

namespace waybill {
namespace {

class CallSink final : public Sink {
 public:
  explicit CallSink(std::function<CallResult(const EventView&)> deliver) : deliver_(std::move(deliver)) {}

  void submit(const EventView& event, std::uint64_t ticket) override { taken_.push_back({&event, ticket}); }

  // One call per collect, so that a relay can see to its other work after each; how long it goes on is its own affair.
  void collect(std::vector<Outcome>& outcomes, Steady /*deadline*/) override {
    if (next_ == taken_.size()) return;
    const auto [event, ticket] = taken_[next_++];
    outcomes.push_back(call(*event, ticket));
    if (next_ < taken_.size()) return;
    taken_.clear();
    next_ = 0;
  }

  void close(Steady /*deadline*/) override {
    taken_.clear();
    next_ = 0;
  }

 private:
  struct Taken {
    const EventView* event;
    std::uint64_t ticket;
  };

  Outcome call(const EventView& event, std::uint64_t ticket) {
    try {
      CallResult delivery = deliver_(event);
      if (delivery.kind == Outcome::Kind::delivered) return {ticket, delivery.kind};
      if (delivery.reason.empty())
        delivery.reason =
            fmt::format("the application's function returned '{}' without a reason", to_string(delivery.kind));
      return {ticket, delivery.kind, std::move(delivery.reason)};
    } catch (const std::exception& error) {
      return {ticket, Outcome::Kind::retry, error.what()};
    } catch (...) {
      return {ticket, Outcome::Kind::retry, "something that is no exception was thrown"};
    }
  }

  std::function<CallResult(const EventView&)> deliver_;
  std::vector<Taken> taken_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Sink> sink_from(std::function<CallResult(const EventView&)> deliver) {
  return std::make_unique<CallSink>(std::move(deliver));
}

}  // namespace waybill
