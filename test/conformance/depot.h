#pragma once

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "conformance/sink_suite.h"

// A destination in memory, a sink for it, and what a sink can do wrong: by them the suite itself is tested.
namespace waybill {

struct Depot {
  Condition condition = Condition::there;
  int interruptions = 0;
  std::vector<SinkUnderTest::Arrival> arrivals{};
};

enum class Mistake {
  none,
  answers_twice,
  answers_for_others,
  loses_an_answer,
  loses_an_event,
  answers_before_it_sends,
  sends_twice,
  cuts_at_a_zero_byte,
  blocks_in_submit,
  throws_when_away,
  waits_for_the_deadline,
  ignores_the_deadline,
  returns_without_an_outcome,
  takes_fewer_than_it_says,
  gives_no_reason,
  gives_a_reason_for_success,
  tells_the_payload,
  tells_the_password,
  answers_after_close,
  hangs_in_close,
  hangs_when_destroyed,
  never_comes_back,
  blames_the_events,
  hopes_for_the_best,
  says_unknown_for_unsent,
  probes_too_well,
  hangs_in_probe,
  forgets_what_is_interrupted,
};

class DepotSink final : public Sink {
 public:
  static constexpr std::string_view password = "hunter2";

  explicit DepotSink(Depot& depot, Mistake mistake = Mistake::none, std::chrono::milliseconds too_long = 0ms)
      : depot_(depot), mistake_(mistake), too_long_(too_long), interruptions_(depot.interruptions) {}

  ~DepotSink() override {
    if (is(Mistake::hangs_when_destroyed) && hangs()) std::this_thread::sleep_for(too_long_);
  }
  DepotSink(const DepotSink&) = delete;
  DepotSink& operator=(const DepotSink&) = delete;

  std::size_t in_flight_max() const override { return 200; }

  void submit(const EventView& event, std::uint64_t ticket) override {
    if (is(Mistake::blocks_in_submit) && hangs()) std::this_thread::sleep_for(too_long_);
    if (is(Mistake::throws_when_away) && depot_.condition == Condition::away) throw std::runtime_error("away");
    taken_.push_back({.event = &event,
                      .id = event.id.to_string(),
                      .body = std::string(event.payload),
                      .ticket = ticket,
                      .at = now(),
                      .number = ++submitted_});
  }

  void collect(std::vector<Outcome>& outcomes, Steady deadline) override {
    const std::size_t before = outcomes.size();
    if (is(Mistake::waits_for_the_deadline)) std::this_thread::sleep_until(deadline);
    if (is(Mistake::ignores_the_deadline) && hangs()) std::this_thread::sleep_for(too_long_);
    send_late();
    for (const Outcome& outcome : std::exchange(again_, {})) outcomes.push_back(outcome);
    while (true) {
      answer_all(outcomes);
      if (outcomes.size() > before || now() >= deadline || is(Mistake::returns_without_an_outcome)) return;
      std::this_thread::sleep_for(1ms);
    }
  }

  Outcome probe(Steady deadline) override {
    if (hangs()) std::this_thread::sleep_until(deadline + (is(Mistake::hangs_in_probe) ? too_long_ : 0ms));
    if (reachable() || is(Mistake::probes_too_well)) return {};
    return {0, Outcome::Kind::unavailable, "the depot is away"};
  }

  void close(Steady deadline) override {
    if (is(Mistake::hangs_in_close) && hangs()) std::this_thread::sleep_until(deadline + too_long_);
    if (is(Mistake::answers_after_close))
      for (const Taken& taken : taken_) again_.push_back({.ticket = taken.ticket});
    taken_.clear();
  }

 private:
  using Kind = Outcome::Kind;
  struct Taken {
    const EventView* event = nullptr;
    std::string id{};
    std::string body{};
    std::uint64_t ticket = 0;
    Steady at{};
    std::size_t number = 0;
  };

  static Steady now() { return std::chrono::steady_clock::now(); }
  bool is(Mistake mistake) const { return mistake_ == mistake; }
  bool hangs() const { return depot_.condition == Condition::hanging; }
  bool reachable() const { return depot_.condition == Condition::there || depot_.condition == Condition::slow; }

  void answer_all(std::vector<Outcome>& outcomes) {
    const bool interrupted = std::exchange(interruptions_, depot_.interruptions) != depot_.interruptions;
    std::size_t taken_before = 0;
    std::erase_if(taken_, [&](const Taken& taken) {
      ++taken_before;
      if (interrupted && is(Mistake::forgets_what_is_interrupted)) return true;
      if (!interrupted && !due(taken)) return false;
      if (is(Mistake::loses_an_answer) && taken.number == 7) return true;
      if (is(Mistake::takes_fewer_than_it_says) && taken_before > 100)
        outcomes.push_back({taken.ticket, Kind::retry, "the queue is full"});
      else
        outcomes.push_back(interrupted ? failed(taken, Kind::unknown, "interrupted") : answer(taken));
      if (is(Mistake::answers_twice) && taken.number == 7) again_.push_back(outcomes.back());
      if (is(Mistake::answers_for_others) && taken.number == 7) again_.push_back({.ticket = taken.ticket + 1});
      return true;
    });
  }

  bool due(const Taken& taken) const {
    if (depot_.condition == Condition::slow) return now() >= taken.at + 20ms;
    return !hangs() || is(Mistake::hopes_for_the_best) || now() >= taken.at + 100ms;
  }

  Outcome answer(const Taken& taken) {
    was_away_ = was_away_ || depot_.condition == Condition::away;
    if (depot_.condition == Condition::away || (is(Mistake::never_comes_back) && was_away_))
      return failed(taken, away_kind(), "the depot is away");
    if (hangs() && !is(Mistake::hopes_for_the_best)) return failed(taken, Kind::unknown, "no answer from the depot");
    store(taken);
    return {taken.ticket, Kind::delivered, is(Mistake::gives_a_reason_for_success) ? "fine" : ""};
  }

  Kind away_kind() const {
    if (is(Mistake::blames_the_events)) return Kind::retry;
    return is(Mistake::says_unknown_for_unsent) ? Kind::unknown : Kind::unavailable;
  }

  Outcome failed(const Taken& taken, Kind kind, std::string reason) const {
    if (is(Mistake::gives_no_reason)) reason.clear();
    if (is(Mistake::tells_the_payload)) reason += ": " + taken.body;
    if (is(Mistake::tells_the_password)) reason += ": depot://me:" + std::string(password) + "@here";
    return {taken.ticket, kind, reason};
  }

  void store(const Taken& taken) {
    if (hangs() || (is(Mistake::loses_an_event) && taken.number == 7)) return;
    SinkUnderTest::Arrival arrival{taken.id, taken.body};
    if (is(Mistake::cuts_at_a_zero_byte)) arrival.body.resize(std::min(arrival.body.size(), arrival.body.find('\0')));
    if (is(Mistake::answers_before_it_sends)) return late_.push_back(arrival);
    depot_.arrivals.push_back(arrival);
    if (is(Mistake::sends_twice) && taken.number == 7) depot_.arrivals.push_back(arrival);
  }

  void send_late() {
    // Only when there is something new to do: what came last is still on its way.
    if (taken_.empty()) return;
    for (auto& arrival : std::exchange(late_, {})) depot_.arrivals.push_back(std::move(arrival));
  }

  Depot& depot_;
  const Mistake mistake_;
  const std::chrono::milliseconds too_long_;
  int interruptions_;
  bool was_away_ = false;
  std::size_t submitted_ = 0;
  std::vector<Taken> taken_;
  std::vector<Outcome> again_;
  std::vector<SinkUnderTest::Arrival> late_;
};

class DepotUnderTest : public SinkUnderTest {
 public:
  std::unique_ptr<Sink> make() override { return std::make_unique<DepotSink>(depot_); }
  std::vector<Arrival> arrivals() override { return depot_.arrivals; }
  bool can_be(Condition /*condition*/) const override { return true; }
  void become(Condition condition) override { depot_.condition = condition; }
  void interrupt() override { ++depot_.interruptions; }
  std::vector<std::string> secrets() const override { return {std::string(DepotSink::password)}; }

 protected:
  Depot depot_;
};

}  // namespace waybill
