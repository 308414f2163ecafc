#include <exception>
#include <utility>

#include "waybill/sink.h"

namespace waybill {
namespace {

class CallSink final : public Sink {
 public:
  explicit CallSink(std::function<Outcome::Kind(const EventView&)> deliver) : deliver_(std::move(deliver)) {}

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
      const Outcome::Kind kind = deliver_(event);
      return {ticket, kind, kind == Outcome::Kind::delivered ? "" : "the application said so"};
    } catch (const std::exception& error) {
      return {ticket, Outcome::Kind::retry, error.what()};
    } catch (...) {
      return {ticket, Outcome::Kind::retry, "something that is no exception was thrown"};
    }
  }

  std::function<Outcome::Kind(const EventView&)> deliver_;
  std::vector<Taken> taken_;
  std::size_t next_ = 0;
};

}  // namespace

std::unique_ptr<Sink> sink_from(std::function<Outcome::Kind(const EventView&)> deliver) {
  return std::make_unique<CallSink>(std::move(deliver));
}

}  // namespace waybill
