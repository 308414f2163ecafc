#include "sink/nats/nats_sink.h"

#include <iterator>
#include <utility>

#include "sink/nats/session.h"

namespace waybill {
namespace {

using nats::Parcel;
using nats::Repetitions;
using nats::Session;

// Enough to be worth waking the session for while more is being submitted.
constexpr std::size_t batch_size = 64;

class NatsSink final : public Sink {
 public:
  NatsSink(NatsOptions options, Log log)
      : options_(std::make_shared<const NatsOptions>(std::move(options))),
        repetitions_(std::make_shared<Repetitions>(std::move(log))) {}
  ~NatsSink() override { close(system_clock().steady()); }

  void submit(const EventView& event, std::uint64_t ticket) override {
    batch_.push_back({&event, ticket});
    if (batch_.size() >= batch_size) hand_over();
  }

  void collect(std::vector<Outcome>& outcomes, Steady deadline) override {
    hand_over();
    if (!left_.empty()) {
      outcomes.insert(outcomes.end(), std::make_move_iterator(left_.begin()), std::make_move_iterator(left_.end()));
      left_.clear();
      deadline = {};
    }
    if (session_) session_->collect(outcomes, deadline);
  }

  std::size_t in_flight_max() const override { return options_->in_flight_max; }

  std::optional<Time> trusted_until() const override { return expiry_->until(); }

  Outcome probe(Steady deadline) override {
    if (!session_ || session_->is_over()) begin();
    session_->await(deadline);
    if (session_->is_up()) return {0, Outcome::Kind::delivered, {}};
    if (!session_->is_over()) return {0, Outcome::Kind::unavailable, "still connecting to " + places()};
    return {0, Outcome::Kind::unavailable, session_->trouble()};
  }

  void close(Steady deadline) override {
    batch_.clear();
    if (session_) session_->stop(deadline);
    session_.reset();
    left_.clear();
  }

 private:
  void hand_over() {
    if (batch_.empty()) return;
    if (!session_ || session_->is_over()) begin();
    if (session_->put(batch_)) return;
    // Over before it got them: refused at once, as by a server that is not there.
    for (const Parcel& parcel : batch_)
      left_.push_back({parcel.ticket, Outcome::Kind::unavailable, session_->trouble()});
    batch_.clear();
  }

  // Another connection, begun at another server. What the last session had to say is kept.
  void begin() {
    if (session_) {
      session_->collect(left_, {});
      session_->stop(system_clock().steady());
    }
    session_ = std::make_shared<Session>(options_, repetitions_, expiry_, sessions_++ % options_->servers.size());
    session_->start();
  }

  std::string places() const {
    std::string text;
    for (const auto& server : options_->servers) text += (text.empty() ? "" : ", ") + server.text();
    return text;
  }

  const std::shared_ptr<const NatsOptions> options_;
  const std::shared_ptr<Repetitions> repetitions_;
  const std::shared_ptr<net::Expiry> expiry_ = std::make_shared<net::Expiry>();
  std::shared_ptr<Session> session_;
  std::size_t sessions_ = 0;
  std::vector<Parcel> batch_;  // not handed over yet
  std::vector<Outcome> left_;  // by sessions that are over
};

}  // namespace

std::unique_ptr<Sink> nats_sink(NatsOptions options, Log log) {
  return std::make_unique<NatsSink>(std::move(options), std::move(log));
}

}  // namespace waybill
