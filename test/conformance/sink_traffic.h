#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "conformance/sink_suite.h"

namespace waybill {

// A Traffic submits events to a sink and looks at every outcome: is it one that was due, and is it well formed? The
// memory of an event is overwritten and freed as soon as the sink may no longer look at it.
class Traffic {
 public:
  explicit Traffic(SinkUnderTest& world) : world_(world), sink_(world.make()) {}
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  Sink& sink() { return *sink_; }
  std::size_t room() const;
  std::size_t under_way() const { return under_way_.size(); }

  // Collect first if there is no room.
  void submit(SampleEvent event);
  // Usual events; their payload is at least so large.
  void submit_many(std::size_t count, std::size_t payload_bytes = 0);

  // Collects once; how many outcomes there were.
  std::size_t collect(std::chrono::milliseconds wait);
  // Collects until nothing is under way; says so if that takes longer than the destination's patience.
  void collect_all();
  // Submits what was not delivered again, as a relay would, until it is; after collect_all() or close().
  void deliver_the_rest();
  Outcome probe(std::chrono::milliseconds wait);
  // Asks the sink until the destination can be reached, as a relay would.
  void wait_until_reachable();
  // Nothing is under way any more. Tickets begin anew.
  void close(std::chrono::milliseconds wait);
  // Lets go of the sink, with all that is under way.
  void destroy();

  // Of all outcomes so far.
  std::size_t count(Outcome::Kind kind) const;
  std::size_t answered() const { return kinds_.size(); }
  // Of the event's last attempt; none: it is under way, or was dropped by close().
  std::optional<Outcome::Kind> last(const EventId& id) const { return sent_.at(id.to_string()).last; }

  // All that was delivered has arrived, as it was; nothing else has; none of it twice if there was no `trouble`.
  // Nothing if the destination keeps nothing.
  void expect_arrivals(bool trouble);

 private:
  SampleEvent usual(std::size_t payload_bytes);
  void look_at(const Outcome& outcome);
  void look_at_reason(const Outcome& outcome) const;
  std::vector<SampleEvent> undelivered() const;

  struct UnderWay {
    std::unique_ptr<SampleEvent> event{};
    std::unique_ptr<EventView> view{};
  };
  struct Sent {
    SampleEvent event{};  // A copy, for comparison and for the next attempt.
    std::optional<Outcome::Kind> last{};
  };

  SinkUnderTest& world_;
  std::unique_ptr<Sink> sink_;
  std::uint64_t tickets_ = 0;
  std::map<std::uint64_t, UnderWay> under_way_;
  std::map<std::string, Sent> sent_;  // by id
  std::vector<Outcome::Kind> kinds_;
  int names_ = 0;
  bool given_up_ = false;  // An outcome never came. There is no use in waiting for more.
};

}  // namespace waybill
