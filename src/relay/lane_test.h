#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "relay/lane_table.h"

namespace waybill {

// A lane and its table, driven by hand. Events are named by their numbers.
class LaneTest : public testing::Test {
 protected:
  void begin(Lane::Options options = {}) {
    lane_.emplace(table_.open(now_), 1, options, now_);
    read_upto_ = table_.settled;
    under_way_.clear();
  }

  void read(std::string_view events, bool ends_window = true) {
    table_.enqueue(events);
    read_on(ends_window);
  }
  void read_on(bool ends_window = true) {
    Chunk chunk = table_.read(read_upto_, 1'000, ends_window);
    windows_.push_back(chunk.window);
    lane_->append(std::move(chunk), [&](const EventView& event) {
      Lane::Decision decision{.publish = !skipped_.contains(event.seq)};
      if (scheduled_.contains(event.seq)) decision.due = Steady(1h);
      return decision;
    });
  }

  // Hands out all that may go now.
  std::string go() {
    std::string names;
    lane_->release_due(now_);
    const auto wanted = lane_->wanted(100);
    lane_->take_in(table_.fetch(wanted, now_), wanted, now_);
    while (const auto position = lane_->next(now_)) names += handed_out(*position);
    if (const auto position = lane_->next_alone()) names += std::string("alone ") + handed_out(*position);
    if (lane_->wants_alone() && !lane_->alone_announced()) lane_->announce_alone(now_);
    return names;
  }
  char handed_out(Lane::Position position) {
    const std::int64_t seq = lane_->event(position).seq;
    under_way_[seq] = position;
    return static_cast<char>('0' + seq);
  }

  void done(int seq) { lane_->finish(under_way_.at(seq)); }
  void fails(int seq, std::chrono::milliseconds wait = 10s) {
    stands(seq, {.standing = Standing::retrying, .blocks = true, .wait = wait});
  }
  void dies(int seq) { stands(seq, {.standing = Standing::dead}); }
  void stands(int seq, Undelivered how) {
    Undelivered row = lane_->row(under_way_.at(seq));
    row.standing = how.standing;
    row.blocks = row.key != 0 && how.blocks;
    row.wait = how.wait;
    row.sending = Undelivered::Sending::no;
    lane_->put_back(under_way_.at(seq), row, now_);
  }

  // Saves; tells how far the cursor is and how the rows stand.
  std::string save() {
    const auto settlement = lane_->settle(now_);
    if (!settlement) return "nothing";
    table_.save(*settlement, now_);
    lane_->saved();
    std::string text = settlement->window ? std::to_string(settlement->seq) : "stays";
    if (settlement->window_done) text += " done";
    for (const auto& [seq, row] : table_.rows) {
      text += " " + std::to_string(seq) + "-" + std::string(to_string(row.standing));
      if (row.sending != Undelivered::Sending::no) text += "-sending";
    }
    return text;
  }

  LaneTable table_;
  std::optional<Lane> lane_;
  Steady now_{1'000s};
  std::int64_t read_upto_ = 0;
  std::map<std::int64_t, Lane::Position> under_way_;
  std::set<std::int64_t> skipped_;
  std::set<std::int64_t> scheduled_;
  std::vector<std::shared_ptr<const Window>> windows_;

  LaneTest() { begin(); }
};

}  // namespace waybill
