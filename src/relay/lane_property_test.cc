#include <set>

#include <gtest/gtest.h>
// After gtest, which it needs.
#include <rapidcheck/gtest.h>

#include "relay/lane_table.h"

namespace waybill {
namespace {

// Whatever is read, answered, saved, redriven and dismissed by people, lost in a crash and found again, in whatever
// order: the first deliveries of a key come in order but for those that were dead before, one of a key is under way at
// most, a lane announces one at most to go alone, one that is given back leaves nothing to be sent twice, and in the
// end every event is delivered, dead or dismissed.
RC_GTEST_PROP(LaneProperty, KeepsOrderWhateverHappens, ()) {
  LaneTable table;
  Steady now{1'000s};
  const Lane::Options options{.announce = *rc::gen::arbitrary<bool>(), .announced_max = 3};
  std::optional<Lane> lane;
  std::int64_t read_upto = 0;
  std::set<std::int64_t> delivered;
  std::set<std::int64_t> delivered_by_lane;
  std::map<std::string, std::int64_t> newest;
  std::map<std::string, int> under_way_per_key;
  std::vector<Lane::Position> under_way;
  std::set<std::int64_t> alone_before;  // An earlier lane has announced them, and this one has not judged that yet.

  const auto begin = [&] {
    lane.emplace(table.open(now), 1, options, now);
    read_upto = table.settled;
    delivered_by_lane.clear();
    alone_before = table.sending_alone();
    under_way.clear();
    under_way_per_key.clear();
  };
  const auto took = [&](Lane::Position position) {
    const std::string key(lane->event(position).key);
    if (!key.empty()) RC_ASSERT(++under_way_per_key[key] == 1);
    under_way.push_back(position);
  };
  const auto hand_out = [&] {
    lane->release_due(now);
    const auto wanted = lane->wanted(100);
    lane->take_in(table.fetch(wanted, now), wanted, now);
    while (const auto position = lane->next_suspect()) took(*position);
    while (const auto position = lane->next(now)) took(*position);
    if (const auto position = lane->next_alone()) took(*position);
    if (lane->wants_alone() && !lane->alone_announced() && under_way.empty()) lane->announce_alone();
  };
  const auto answer = [&](std::size_t index, int how) {
    const Lane::Position position = under_way[index];
    under_way.erase(under_way.begin() + static_cast<std::ptrdiff_t>(index));
    const EventView event = lane->event(position);
    const std::string key(event.key);
    if (!key.empty()) --under_way_per_key[key];
    if (how == 0) {
      delivered_by_lane.insert(event.seq);
      if (delivered.insert(event.seq).second && !key.empty() && !table.redriven.contains(event.seq)) {
        RC_ASSERT(event.seq > newest[key]);
        newest[key] = event.seq;
      }
      lane->finish(position);
      return;
    }
    if (how == 1) {
      lane->again_first(position);
      return;
    }
    Undelivered row = lane->row(position);
    row.standing = how == 2 ? Standing::dead : Standing::retrying;
    row.blocks = row.key != 0 && row.standing == Standing::retrying;
    row.sending = Undelivered::Sending::no;
    row.crashes = how == 5 ? 1 : 0;
    row.wait = how * 100ms;
    lane->put_back(position, row, now);
  };
  const auto save = [&] {
    if (const auto settlement = lane->settle(now)) {
      if (settlement->count > 0) RC_ASSERT(settlement->seq > table.settled);
      table.save(*settlement, now);
      for (const Undelivered& row : settlement->undelivered) alone_before.erase(row.seq);
      for (const std::int64_t seq : settlement->delivered) alone_before.erase(seq);
      RC_ASSERT(table.sending_alone().size() <= alone_before.size() + 1);
      lane->saved();
    }
  };
  const auto waits_in_store = [&](std::int64_t seq) {
    const auto row = table.rows.find(seq);
    return seq > table.settled || (row != table.rows.end() && waits(row->second.standing));
  };
  const auto give_back = [&] {
    lane->abandon_rest();
    while (!under_way.empty()) answer(under_way.size() - 1, *rc::gen::element(0, 0, 1, 2, 3));
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
    lane->append(table.read(read_upto, *rc::gen::inRange(1, 10), true),
                 [](const EventView&) { return Lane::Decision{}; });
    hand_out();
    const auto answers = *rc::gen::inRange<std::size_t>(0, under_way.size() + 1);
    for (std::size_t i = 0; i < answers; ++i)
      answer(*rc::gen::inRange<std::size_t>(0, under_way.size()), *rc::gen::element(0, 0, 0, 0, 1, 2, 3, 5));
    if (*rc::gen::arbitrary<bool>()) save();
    if (*rc::gen::inRange(0, 3) == 0)
      table.change_the_dead(*rc::gen::inRange(0, 100), *rc::gen::arbitrary<bool>(), now);
    now += *rc::gen::element(10ms, 200ms, 1'100ms);
    if (*rc::gen::inRange(0, 10) == 0) lane->park();
    if (*rc::gen::inRange(0, 10) == 0) begin();
    if (*rc::gen::inRange(0, 10) == 0) give_back();
  }
  // As a relay begins anew when it has noticed that people have changed something.
  begin();
  for (int round = 0; round < 1'000; ++round) {
    lane->append(table.read(read_upto, 100, true), [](const EventView&) { return Lane::Decision{}; });
    now += 1s;
    hand_out();
    while (!under_way.empty()) answer(under_way.size() - 1, 0);
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
