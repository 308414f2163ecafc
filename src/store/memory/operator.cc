#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "model/filter_details.h"
#include "store/memory/tables.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

class MemoryOperator final : public Operator {
 public:
  explicit MemoryOperator(TablesPtr tables) : tables_(std::move(tables)) {}

  std::int64_t count(const UndeliveredFilter& filter) override {
    const std::lock_guard lock(tables_->mutex);
    std::int64_t found = 0;
    each(filter, [&](UndeliveredRow& /*row*/) { return ++found, true; });
    return found;
  }

  std::int64_t redrive(const Operation& operation, const UndeliveredFilter& filter, int most) override {
    const std::lock_guard lock(tables_->mutex);
    record(operation, "redrive", filter.destination, filter_details(filter));
    return change(operation, filter, most, [&](UndeliveredRow& row) {
      row.row.ignore_expiry = row.row.ignore_expiry || has_expired(row.row.standing);
      row.row.standing = Standing::retrying;
      row.row.blocks = row.row.key != 0;
      row.row.attempts = 0;
      row.row.crashes = 0;
      row.row.blamed = 0;
      row.row.sending = Undelivered::Sending::no;
      row.due = tables_->clock.steady();
      ++row.redrives;
    });
  }

  std::int64_t dismiss(const Operation& operation, const UndeliveredFilter& filter, int most) override {
    const std::lock_guard lock(tables_->mutex);
    record(operation, "dismiss", filter.destination, filter_details(filter));
    return change(operation, filter, most, [&](UndeliveredRow& row) {
      row.row.standing = Standing::dismissed;
      row.row.blocks = false;
    });
  }

  void edit(const Operation& operation, const std::string& destination, const EventId& id, const Edit& edit) override {
    const std::lock_guard lock(tables_->mutex);
    if (find(operation)) return;
    const auto edited = change(operation, {.destination = destination, .ids = {id}}, 1, [&](UndeliveredRow& row) {
      if (!row.edit) row.edit.emplace();
      if (edit.payload) row.edit->payload = edit.payload;
      if (edit.headers) row.edit->headers = edit.headers;
    });
    if (edited == 0)
      throw Error(Remedy::fix_input,
                  fmt::format("event {} is neither dead, held nor expired at '{}'", id.to_string(), destination));
    record(operation, "edit", destination);
  }

  void pause(const Operation& operation, const std::string& destination, bool paused) override {
    const std::lock_guard lock(tables_->mutex);
    DestinationRow& row = tables_->destinations[destination];
    row.paused = paused;
    ++row.changes;
    record(operation, paused ? "pause" : "resume", destination);
  }

  Count rewind(const Operation& operation, const std::string& destination, const RewindTo& to, bool dry) override {
    const std::lock_guard lock(tables_->mutex);
    if (const OperationView* done = find(operation)) return {.value = done->events};
    const std::int64_t first = first_to_send(to);
    Count again;
    for (LaneRow* lane : lanes_of(destination)) {
      for (std::int64_t seq = first; seq <= lane->seq(); ++seq)
        again.value += &lane_of(destination, seq) == lane ? 1 : 0;
      if (dry || lane->seq() < first) continue;
      lane->settled.push_back({.seq = first - 1, .at = tables_->clock.now()});
      lane->undelivered.erase(lane->undelivered.lower_bound(first), lane->undelivered.end());
    }
    if (dry) return again;
    for (auto& [place, lease] : tables_->leases)
      if (place.first == destination) lease = {.term = lease.term + 1, .in_doubt_until = tables_->clock.now()};
    ++tables_->destinations[destination].changes;
    record(operation, "rewind", destination).events = again.value;
    return again;
  }

  Count forget(const Operation& operation, const std::string& destination, bool dry) override {
    const std::lock_guard lock(tables_->mutex);
    if (const OperationView* done = find(operation)) return {.value = done->events};
    for (const auto& [id, relay] : tables_->relays)
      if (tables_->alive(id) && std::count(relay.destinations.begin(), relay.destinations.end(), destination) > 0)
        throw Error(Remedy::fix_input, fmt::format("a relay serves '{}'", destination));
    Count left;
    for (const LaneRow* lane : lanes_of(destination)) {
      for (const auto& [seq, row] : lane->undelivered)
        left.value += waits(row.row.standing) || row.row.standing == Standing::held ? 1 : 0;
      for (std::int64_t seq = lane->seq() + 1; seq <= tables_->last_seq(); ++seq)
        left.value += &lane_of(destination, seq) == lane ? 1 : 0;
    }
    if (dry) return left;
    std::erase_if(tables_->lanes, [&](const auto& lane) { return lane.first.first == destination; });
    std::erase_if(tables_->leases, [&](const auto& lease) { return lease.first.first == destination; });
    tables_->destinations.erase(destination);
    record(operation, "forget", destination).events = left.value;
    return left;
  }

  std::vector<OperationView> history(int limit) override {
    const std::lock_guard lock(tables_->mutex);
    std::vector<OperationView> list(tables_->operations.rbegin(), tables_->operations.rend());
    if (std::ssize(list) > limit) list.resize(static_cast<std::size_t>(limit));
    return list;
  }

 private:
  template <typename Visit>
  void each(const UndeliveredFilter& filter, const Visit& visit) {
    for (auto& [place, lane] : tables_->lanes)
      for (auto& [seq, row] : lane.undelivered)
        if (matches(filter, place.first, row, event_of(*tables_, seq)) && !visit(row)) return;
  }

  static bool has_expired(Standing standing) {
    return standing == Standing::expired || standing == Standing::expired_unknown;
  }
  // What has expired only if somebody asks for it.
  static bool may_change(const UndeliveredFilter& filter, Standing standing) {
    return rests(standing) && (!has_expired(standing) || !filter.standings.empty() || !filter.ids.empty());
  }

  // What has died since the operation was begun is not touched by it.
  template <typename Touch>
  std::int64_t change(const Operation& operation, const UndeliveredFilter& filter, int most, const Touch& touch) {
    const std::int64_t begun = tables_->begun.try_emplace(operation.id, ++tables_->moments).first->second;
    std::int64_t touched = 0;
    each(filter, [&](UndeliveredRow& row) {
      if (row.moment > begun || !may_change(filter, row.row.standing)) return true;
      touch(row);
      return ++touched < most;
    });
    if (OperationView* view = find(operation)) view->events += touched;
    ++tables_->destinations[filter.destination].changes;
    return touched;
  }

  std::vector<LaneRow*> lanes_of(const std::string& destination) {
    std::vector<LaneRow*> lanes;
    for (auto& [place, lane] : tables_->lanes)
      if (place.first == destination) lanes.push_back(&lane);
    if (lanes.empty()) throw Error(Remedy::fix_input, fmt::format("there is no destination '{}'", destination));
    return lanes;
  }

  LaneRow& lane_of(const std::string& destination, std::int64_t seq) {
    return tables_->lanes[{destination, event_of(*tables_, seq).shard}];
  }

  std::int64_t first_to_send(const RewindTo& to) const {
    const auto wanted = [&](const StoredEvent& stored) {
      return to.event ? stored.view.id == *to.event : !to.time || stored.view.created_at >= *to.time;
    };
    const auto first = std::find_if(tables_->log.begin(), tables_->log.end(), wanted);
    if (first == tables_->log.end() && to.event)
      throw Error(Remedy::fix_input, fmt::format("event {} is not in the log", to.event->to_string()));
    return first - tables_->log.begin() + 1;
  }

  OperationView* find(const Operation& operation) {
    for (OperationView& view : tables_->operations)
      if (view.id == operation.id) return &view;
    return nullptr;
  }

  OperationView& record(const Operation& operation, const std::string& kind, const std::string& destination,
                        const std::string& details = "") {
    if (OperationView* view = find(operation)) {
      if (view->kind != kind || view->destination != destination)
        throw Error(Remedy::fix_input, fmt::format("operation {} is a {} of destination '{}'", view->id.to_string(),
                                                   view->kind, view->destination));
      return *view;
    }
    return tables_->operations.emplace_back(OperationView{.id = operation.id,
                                                          .kind = kind,
                                                          .by = operation.by,
                                                          .destination = destination,
                                                          .details = details,
                                                          .at = tables_->clock.now()});
  }

  TablesPtr tables_;
};

}  // namespace

std::unique_ptr<Operator> memory_operator(TablesPtr tables) {
  return std::make_unique<MemoryOperator>(std::move(tables));
}

}  // namespace waybill
