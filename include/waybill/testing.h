#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/api.h"
#include "waybill/database.h"
#include "waybill/event.h"
#include "waybill/memory.h"
#include "waybill/sink.h"
#include "waybill/time.h"

// For the tests of applications, with any framework: databases and stores without a server, what was enqueued, time
// that is moved by hand, a destination that does as it is told. waybill/gmock.h has matchers for GoogleMock.
namespace WAYBILL_API waybill {

// A database in memory with the library's tables, of one's own and gone with the connection: for what runs on a
// Connection. It is SQLite's.
std::unique_ptr<Connection> memory_database();

// What is enqueued from now on.
class EnqueuedEvents {
 public:
  // The connection must outlive it, and may read the log: as owner, or with the role waybill_reader.
  explicit EnqueuedEvents(Connection& connection, std::string schema = "waybill");

  // As the connection sees them now, in the order in which they were written: those of its own transaction, too.
  std::vector<Event> events() const;

 private:
  Connection& connection_;
  std::string schema_;
  std::int64_t after_ = 0;
};

// Empty: the event is like `wanted`. Otherwise what is different, for people. What is not set in `wanted` may be
// anything, except the tenant. Payloads of JSON are the same if their values are. Headers and members of the metadata
// may be more than those that are wanted.
std::string difference(const Event& event, const Event& wanted);
// Empty: these are the events that are wanted, in this order, and no others.
std::string differences(const std::vector<Event>& events, const std::vector<Event>& wanted);

// What is set of an event, in one line, for people.
std::string to_text(const Event& event);

// A clock that stands still until it is moved. Thread-safe.
class ManualClock final : public Clock {
 public:
  Time now() const override {
    const std::lock_guard lock(mutex_);
    return Time(std::chrono::sys_days(std::chrono::year(2026) / 2 / 19)) + elapsed_ + suspended_ + set_;
  }
  Steady steady() const override {
    const std::lock_guard lock(mutex_);
    return Steady(std::chrono::hours(1)) + elapsed_;
  }
  Steady since_boot() const override {
    const std::lock_guard lock(mutex_);
    return Steady(std::chrono::hours(2)) + elapsed_ + suspended_;
  }
  void advance(std::chrono::microseconds by) {
    const std::lock_guard lock(mutex_);
    elapsed_ += by;
  }
  // The machine sleeps: only since_boot() and the wall clock go on.
  void suspend(std::chrono::microseconds by) {
    const std::lock_guard lock(mutex_);
    suspended_ += by;
  }
  // Somebody sets the wall clock.
  void set(std::chrono::microseconds by) {
    const std::lock_guard lock(mutex_);
    set_ += by;
  }

 private:
  mutable std::mutex mutex_;
  std::chrono::microseconds elapsed_{0};
  std::chrono::microseconds suspended_{0};
  std::chrono::microseconds set_{0};
};

// A sink that does as it is told, and remembers. For relays that are stepped or drained on the test's own thread:
// nothing is locked.
class ScriptedSink final : public Sink {
 public:
  // What everybody may look at and set, also after the sink has gone into a relay. Must outlive it.
  struct Script {
    // What events are called in here.
    std::function<std::string(const EventView&)> name = [](const EventView& event) {
      return std::string(event.payload);
    };
    std::map<std::string, std::deque<Outcome::Kind>> next{};  // What comes of an event's next attempts; then delivered.
    bool answers = true;                                      // false: keeps everything under way
    bool away = false;                                        // true: unavailable,
    std::string away_because = "away";                        // for this reason
    std::set<std::string> stuck{};                            // events that get no answer
    std::set<std::string> poison{};                           // events that set `poisoned`, then nothing answers
    bool poisoned = false;
    std::size_t in_flight_max = 1000;
    std::vector<std::string> delivered{};  // in order
    std::vector<std::string> attempted{};  // in order
    std::vector<EventId> attempted_ids{};  // in order
    int probes = 0;
    std::size_t most_under_way = 0;
    bool closed = false;
    Steady close_by{};
  };

  explicit ScriptedSink(Script& script) : script_(script) {}

  void submit(const EventView& event, std::uint64_t ticket) override {
    taken_.push_back({.name = script_.name(event), .ticket = ticket});
    script_.attempted.push_back(taken_.back().name);
    script_.attempted_ids.push_back(event.id);
    if (script_.poison.contains(taken_.back().name)) script_.poisoned = true;
    script_.most_under_way = std::max(script_.most_under_way, taken_.size());
  }

  void collect(std::vector<Outcome>& outcomes, Steady /*deadline*/) override {
    if (!script_.answers || script_.poisoned) return;
    std::erase_if(taken_, [&](const Taken& taken) {
      if (script_.stuck.contains(taken.name)) return false;
      outcomes.push_back(answer(taken));
      return true;
    });
  }

  std::size_t in_flight_max() const override { return script_.in_flight_max; }

  Outcome probe(Steady /*deadline*/) override {
    ++script_.probes;
    return script_.away ? Outcome{0, Outcome::Kind::unavailable, script_.away_because} : Outcome{};
  }

  void close(Steady deadline) override {
    script_.closed = true;
    script_.close_by = deadline;
    taken_.clear();
  }

 private:
  struct Taken {
    std::string name{};
    std::uint64_t ticket = 0;
  };

  Outcome answer(const Taken& taken) {
    if (script_.away) return {taken.ticket, Outcome::Kind::unavailable, script_.away_because};
    auto kind = Outcome::Kind::delivered;
    if (auto& next = script_.next[taken.name]; !next.empty()) {
      kind = next.front();
      next.pop_front();
    }
    if (kind == Outcome::Kind::delivered) script_.delivered.push_back(taken.name);
    return {taken.ticket, kind, kind == Outcome::Kind::delivered ? "" : "as scripted"};
  }

  Script& script_;
  std::vector<Taken> taken_;
};

}  // namespace waybill
