#include <set>

#include <gtest/gtest.h>
// After gtest, which it needs.
#include <rapidcheck/gtest.h>

#include "relay/lane_table.h"

namespace waybill {
namespace {

// What may become of an event that was handed out.
enum class Answer {
  delivered,
  unavailable,
  retry,
  crashed,
  dead,
  dead_and_blocks,
  dead_with_its_key,
  held,
  held_and_blocks
};

// How an event stands after an answer that is neither of the first two.
Undelivered stands(Undelivered row, Answer answer, std::chrono::milliseconds wait) {
  const bool blocks = answer == Answer::retry || answer == Answer::crashed || answer == Answer::dead_and_blocks ||
                      answer == Answer::held_and_blocks;
  switch (answer) {
    case Answer::dead:
    case Answer::dead_and_blocks:
    case Answer::dead_with_its_key:
      row.standing = Standing::dead;
      break;
    case Answer::held:
    case Answer::held_and_blocks:
      row.standing = Standing::held;
      break;
    default:
      row.standing = Standing::retrying;
  }
  row.blocks = row.key != 0 && blocks;
  row.sending = Undelivered::Sending::no;
  row.crashes = answer == Answer::crashed ? row.crashes + 1 : 0;
  row.wait = wait;
  return row;
}

rc::Gen<Answer> any_answer() {
  return rc::gen::weightedElement<Answer>({{8, Answer::delivered},
                                           {2, Answer::unavailable},
                                           {3, Answer::retry},
                                           {2, Answer::crashed},
                                           {1, Answer::dead},
                                           {1, Answer::dead_and_blocks},
                                           {1, Answer::dead_with_its_key},
                                           {1, Answer::held},
                                           {1, Answer::held_and_blocks}});
}

// Windows of several chunks, some of whose events are scheduled. Checks what is said of places.
class Windows {
 public:
  Windows(LaneTable& table, Steady start) : table_(table), start_(start) {}

  void begin() {
    upto_ = table_.settled;
    window_.reset();
  }
  void read(Lane& lane, std::int64_t most, bool ends, Steady now) {
    const std::int64_t before = upto_;
    Chunk chunk = table_.read(upto_, most, ends, window_);
    window_ = ends ? nullptr : chunk.window;
    for (std::int64_t seq = before + 1; seq <= upto_; ++seq) window_of_[seq] = chunk.window;
    if (ends) last_of_[chunk.window] = upto_;
    lane.append(std::move(chunk), [&](const EventView& event) {
      const Steady due = due_of(event.seq);
      return due > now ? Lane::Decision{.due = due} : Lane::Decision{};
    });
  }
  // Some events are not to go before a time.
  bool scheduled(std::int64_t seq) const { return seq % 7 == 0; }

  void check(const Settlement& settlement) const {
    if (!settlement.window) return;
    if (settlement.window_done) {
      RC_ASSERT(last_of_.at(settlement.window) <= table_.settled);
    } else {
      RC_ASSERT(window_of_.at(settlement.seq) == settlement.window);
    }
  }

 private:
  Steady due_of(std::int64_t seq) const { return scheduled(seq) ? start_ + seq * 200ms : start_; }

  LaneTable& table_;
  const Steady start_;
  std::int64_t upto_ = 0;
  std::shared_ptr<const Window> window_;  // that goes on
  std::map<std::int64_t, std::shared_ptr<const Window>> window_of_;
  std::map<std::shared_ptr<const Window>, std::int64_t> last_of_;
};

// Whatever is read, answered, saved, redriven and dismissed by people, lost in a crash and found again, in whatever
// order: the first deliveries of a key come in order but for those that were given up or scheduled, one of a key is
// under way at most, an attempt at what has failed before is announced, a lane announces one at most to go alone, one
// that is given back leaves nothing to be sent twice, and in the end every event is delivered, dead or dismissed.
RC_GTEST_PROP(LaneProperty, KeepsOrderWhateverHappens, ()) {
  LaneTable table;
  Steady now{1'000s};
  const Lane::Options options{.announce = *rc::gen::arbitrary<bool>(), .announced_max = 3};
  std::optional<Lane> lane;
  Windows windows(table, now);
  std::set<std::int64_t> delivered;
  std::set<std::int64_t> delivered_by_lane;
  std::map<std::string, std::int64_t> newest;
  std::map<std::uint64_t, int> under_way_per_key;
  std::vector<Lane::Position> under_way;
  std::set<std::int64_t> alone_before;  // An earlier lane has announced them, and this one has not judged that yet.

  const auto begin = [&] {
    lane.emplace(table.open(now), 1, options, now);
    windows.begin();
    delivered_by_lane.clear();
    alone_before = table.on_trial();
    under_way.clear();
    under_way_per_key.clear();
  };
  const auto took = [&](Lane::Position position) {
    const std::uint64_t key = lane->row(position).key;
    if (key != 0) RC_ASSERT(++under_way_per_key[key] == 1);
    under_way.push_back(position);
  };
  const auto sends = [&](Lane::Position position) {
    const Undelivered row = lane->row(position);
    if (row.attempts > 1) RC_ASSERT(table.rows.at(row.seq).sending != Undelivered::Sending::no);
    took(position);
  };
  const auto hand_out = [&] {
    lane->release_due(now);
    const auto wanted = lane->wanted(100);
    lane->take_in(table.fetch(wanted, now), wanted, now);
    while (const auto position = lane->next_suspect()) took(*position);
    while (const auto position = lane->next(now)) sends(*position);
    if (const auto position = lane->next_alone()) sends(*position);
    if (lane->wants_alone() && !lane->alone_announced() && under_way.empty()) lane->announce_alone(now);
  };
  const auto answer = [&](std::size_t index, Answer how) {
    const Lane::Position position = under_way[index];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(index));
    const EventView event = lane->event(position);
    const Undelivered row = lane->row(position);
    if (row.key != 0) --under_way_per_key[row.key];
    if (how == Answer::delivered) {
      const std::string key(event.key);
      delivered_by_lane.insert(event.seq);
      if (delivered.insert(event.seq).second && !key.empty() && !table.redriven.contains(event.seq) &&
          !windows.scheduled(event.seq)) {
        RC_ASSERT(event.seq > newest[key]);
        newest[key] = event.seq;
      }
      lane->finish(position);
    } else if (how == Answer::unavailable) {
      lane->again_first(position);
    } else {
      lane->put_back(position, stands(row, how, *rc::gen::element(0ms, 300ms, 500ms)), now);
      if (how == Answer::dead_with_its_key && row.key != 0) lane->bury_key(row.key);
    }
  };
  const auto save = [&] {
    if (const auto settlement = lane->settle(now)) {
      if (settlement->count > 0) RC_ASSERT(settlement->seq > table.settled);
      table.save(*settlement, now);
      windows.check(*settlement);
      for (const Undelivered& row : settlement->undelivered) alone_before.erase(row.seq);
      for (const std::int64_t seq : settlement->delivered) alone_before.erase(seq);
      RC_ASSERT(table.on_trial().size() <= alone_before.size() + 1);
      lane->saved();
    }
  };
  const auto waits_in_store = [&](std::int64_t seq) {
    const auto row = table.rows.find(seq);
    return seq > table.settled || (row != table.rows.end() && waits(row->second.standing));
  };
  const auto give_back = [&] {
    lane->abandon_rest();
    while (!under_way.empty()) answer(under_way.size() - 1, *any_answer());
    for (int saves = 0; lane->urgency(now) != Lane::Urgency::none; ++saves) {
      RC_ASSERT(saves < 10);
      save();
    }
    for (const std::int64_t seq : delivered_by_lane) RC_ASSERT(table.redriven.contains(seq) || !waits_in_store(seq));
    begin();
  };

  begin();
  const auto rounds = *rc::gen::inRange(1, 60);
  for (int round = 0; round < rounds; ++round) {
    const auto count = *rc::gen::inRange(0, 8);
    for (int i = 0; i < count; ++i) table.enqueue(*rc::gen::element('a', 'b', 'c', '-'));
    windows.read(*lane, *rc::gen::inRange(1, 10), *rc::gen::arbitrary<bool>(), now);
    hand_out();
    const auto answers = *rc::gen::inRange<std::size_t>(0, under_way.size() + 1);
    for (std::size_t i = 0; i < answers; ++i)
      answer(*rc::gen::inRange<std::size_t>(0, under_way.size()), *any_answer());
    if (*rc::gen::arbitrary<bool>()) save();
    if (*rc::gen::inRange(0, 3) == 0) table.decide(*rc::gen::inRange(0, 100), *rc::gen::arbitrary<bool>(), now);
    now += *rc::gen::element(10ms, 200ms, 1'100ms);
    if (*rc::gen::inRange(0, 10) == 0) lane->park();
    if (*rc::gen::inRange(0, 10) == 0) begin();
    if (*rc::gen::inRange(0, 10) == 0) give_back();
  }
  // People decide on all that keys wait for. A relay that has noticed begins again.
  for (const std::int64_t seq : table.given_up())
    if (table.rows.at(seq).blocks) table.decide(seq, *rc::gen::arbitrary<bool>(), now);
  begin();
  for (int round = 0; round < 1'000; ++round) {
    windows.read(*lane, 100, true, now);
    now += 1s;
    hand_out();
    while (!under_way.empty()) answer(under_way.size() - 1, Answer::delivered);
    save();
  }
  RC_ASSERT(table.settled == table.last());
  for (std::int64_t seq = 1; seq <= table.last(); ++seq) {
    const auto row = table.rows.find(seq);
    const bool ended = row != table.rows.end() && !waits(row->second.standing);
    RC_ASSERT(ended || (row == table.rows.end() && delivered.contains(seq)));
  }
  RC_ASSERT(lane->blocked() == 0);
  RC_ASSERT(lane->unsettled() == 0);
}

}  // namespace
}  // namespace waybill
