#include "sink/null/null_sink.h"

namespace waybill {
namespace {

class NullSink final : public Sink {
 public:
  void submit(const EventView& /*event*/, std::uint64_t ticket) override { taken_.push_back(ticket); }

  void collect(std::vector<Outcome>& outcomes, Steady /*deadline*/) override {
    for (const std::uint64_t ticket : taken_) outcomes.push_back({.ticket = ticket});
    taken_.clear();
  }

  void close(Steady /*deadline*/) override { taken_.clear(); }

 private:
  std::vector<std::uint64_t> taken_;
};

}  // namespace

std::unique_ptr<Sink> null_sink() {
  return std::make_unique<NullSink>();
}

}  // namespace waybill
