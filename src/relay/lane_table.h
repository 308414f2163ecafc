#pragma once

#include <algorithm>
#include <deque>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "relay/lane.h"

namespace waybill {

using namespace std::chrono_literals;

// What a store would have of one shard: the log, the cursor, the table `undelivered`. Keys are single letters ('-':
// none), events are named by their numbers: "a1 b2 a3" is event 1 of key a, ….
class LaneTable {
 public:
  void enqueue(std::string_view events) {
    for (std::size_t i = 0; i + 1 < events.size(); i += 3) enqueue(events[i]);
  }
  void enqueue(char key) { keys_.emplace_back(1, key); }
  std::int64_t last() const { return std::ssize(keys_); }

  EventView event(std::int64_t seq) const {
    EventView event{.seq = seq, .shard = 3, .tenant = "t"};
    const std::string& key = keys_[static_cast<std::size_t>(seq - 1)];
    if (key != "-") event.key = key;
    return event;
  }

  // `window`: of which the chunk before was, and not the last.
  Chunk read(std::int64_t& upto, std::int64_t most, bool ends_window,
             std::shared_ptr<const Window> window = nullptr) const {
    if (!window) window = std::make_shared<Window>();
    Chunk chunk{.shard = 3, .window = std::move(window), .ends_window = ends_window, .bytes = 10};
    while (upto < last() && most-- > 0) chunk.events.push_back(event(++upto));
    return chunk;
  }

  Opened open(Steady now) const {
    Opened opened{.lease = {"out", 3, 1}, .crashes = crashes};
    for (const auto& [seq, row] : rows) {
      if (row.key == 0) {
        if (is_due_some_time(row)) opened.next_due = std::min(opened.next_due.value_or(1h), wait(seq, now));
        continue;
      }
      if (!row.blocks) continue;
      auto blocked = std::find_if(opened.blocked.begin(), opened.blocked.end(),
                                  [&](const BlockedKey& each) { return each.key == row.key; });
      if (blocked == opened.blocked.end()) {
        opened.blocked.push_back({.key = row.key});
        blocked = opened.blocked.end() - 1;
        if (is_due_some_time(row)) blocked->wait = wait(seq, now);
      }
      ++blocked->events;
    }
    return opened;
  }

  Fetched fetch(std::span<const Wanted> wanted, Steady now) const {
    Fetched fetched;
    for (const Wanted& each : wanted) {
      int left = each.events_max;
      for (const auto& [seq, row] : rows) {
        if (row.key != each.key || seq <= each.after || (row.key != 0 && !row.blocks)) continue;
        if (row.key == 0 && !is_due_some_time(row)) continue;
        if (row.key == 0 && due_.at(seq) > now) {
          const auto left_over = wait(seq, now);
          const auto place = fetched.next_due.try_emplace(3, left_over).first;
          place->second = std::min(place->second, left_over);
        } else if (left-- > 0) {
          fetched.items.push_back({.row = row, .event = event(seq)});
          fetched.items.back().row.wait = wait(seq, now);
        }
      }
    }
    return fetched;
  }

  void save(const Settlement& settlement, Steady now) {
    if (settlement.count > 0) settled = settlement.seq;
    for (const Undelivered& row : settlement.undelivered) {
      rows[row.seq] = row;
      due_[row.seq] = now + row.wait;
    }
    for (const std::int64_t seq : settlement.delivered) rows.erase(seq);
    for (const std::uint64_t key : settlement.buried_keys)
      for (auto& [seq, row] : rows)
        if (row.key == key && row.blocks) row = {.seq = seq, .key = key, .standing = Standing::dead};
  }

  // Somebody redrives one that is dead or held, or dismisses it; nobody has told the lane.
  void decide(int which, bool redrive, Steady now) {
    const std::vector<std::int64_t> given_up = this->given_up();
    if (!given_up.empty()) decide(given_up[static_cast<std::size_t>(which) % given_up.size()], redrive, now);
  }
  void decide(std::int64_t seq, bool redrive, Steady now) {
    Undelivered& row = rows.at(seq);
    if (redrive) {
      row = {.seq = row.seq, .key = row.key, .standing = Standing::retrying, .blocks = row.key != 0};
      due_[row.seq] = now;
      redriven.insert(row.seq);
    } else {
      row.standing = Standing::dismissed;
      row.blocks = false;
    }
  }
  std::vector<std::int64_t> given_up() const {
    std::vector<std::int64_t> found;
    for (const auto& [seq, row] : rows)
      if (row.standing == Standing::dead || row.standing == Standing::held) found.push_back(seq);
    return found;
  }

  std::set<std::int64_t> on_trial() const {
    std::set<std::int64_t> alone;
    for (const auto& [seq, row] : rows)
      if (row.sending == Undelivered::Sending::on_trial) alone.insert(seq);
    return alone;
  }

  std::int64_t settled = 0;
  std::set<std::int64_t> redriven;
  std::map<std::int64_t, Undelivered> rows;
  std::int32_t crashes = 0;

 private:
  static bool is_due_some_time(const Undelivered& row) {
    return row.standing == Standing::retrying || row.standing == Standing::blocked ||
           row.standing == Standing::scheduled;
  }
  std::chrono::milliseconds wait(std::int64_t seq, Steady now) const {
    return std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(due_.at(seq) - now));
  }

  std::deque<std::string> keys_;
  std::map<std::int64_t, Steady> due_;
};

}  // namespace waybill
