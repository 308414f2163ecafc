#pragma once

#include <deque>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "waybill/sink.h"

namespace waybill {

// A sink that does as it is told, and remembers. Events are named by their payload.
class ScriptedSink final : public Sink {
 public:
  // What everybody may look at and set, also after the sink has gone into a relay.
  struct Script {
    std::map<std::string, std::deque<Outcome::Kind>> next;  // payload -> outcomes of its next attempts, then delivered
    bool answers = true;                                    // false: keeps everything under way
    bool away = false;                                      // true: unavailable,
    std::string away_because = "away";                      // for this reason
    std::set<std::string> stuck;                            // payloads that get no answer
    std::set<std::string> poison;                           // payloads that set `poisoned`, then nothing answers
    bool poisoned = false;
    std::size_t in_flight_max = 1000;
    std::vector<std::string> delivered;  // in order
    std::vector<std::string> attempted;  // in order
    std::vector<EventId> attempted_ids;  // in order
    int probes = 0;
    std::size_t most_under_way = 0;
    bool closed = false;
    Steady close_by{};
  };

  explicit ScriptedSink(Script& script) : script_(script) {}

  void submit(const EventView& event, std::uint64_t ticket) override {
    taken_.push_back({std::string(event.payload), ticket});
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
    std::string name;
    std::uint64_t ticket;
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
