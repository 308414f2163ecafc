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
      row.row.standing = Standing::retrying;
      row.row.blocks = row.row.key != 0;
      row.row.attempts = 0;
      row.row.crashes = 0;
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
    const auto edited = change(operation, {.destination = destination, .ids = {id}}, 1, [&](UndeliveredRow& row) {
      if (!row.edit) row.edit.emplace();
      if (edit.payload) row.edit->payload = edit.payload;
      if (edit.headers) row.edit->headers = edit.headers;
    });
    if (edited == 0)
      throw Error(Remedy::fix_input,
                  fmt::format("event {} is neither dead nor held at '{}'", id.to_string(), destination));
    record(operation, "edit", destination);
  }

  void pause(const Operation& operation, const std::string& destination, bool paused) override {
    const std::lock_guard lock(tables_->mutex);
    DestinationRow& row = tables_->destinations[destination];
    row.paused = paused;
    ++row.changes;
    record(operation, paused ? "pause" : "resume", destination);
  }

  Count rewind(const Operation& /*operation*/, const std::string& /*destination*/, const RewindTo& /*to*/,
               bool /*dry*/) override {
    throw Error(Remedy::fix_config, "memory: there is nothing to rewind to");
  }

  Count forget(const Operation& /*operation*/, const std::string& /*destination*/, bool /*dry*/) override {
    throw Error(Remedy::fix_config, "memory: nothing is forgotten here");
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

  // An event that was touched by this operation before is not touched again; nor is what has died since it began: it
  // may have been touched by another one in between.
  template <typename Touch>
  std::int64_t change(const Operation& operation, const UndeliveredFilter& filter, int most, const Touch& touch) {
    std::int64_t touched = 0;
    const Time began = began_at(operation);
    each(filter, [&](UndeliveredRow& row) {
      if (row.operation == operation.id || row.since > began ||
          (row.row.standing != Standing::dead && row.row.standing != Standing::held))
        return true;
      touch(row);
      row.operation = operation.id;
      return ++touched < most;
    });
    for (OperationView& view : tables_->operations)
      if (view.id == operation.id) view.events += touched;
    ++tables_->destinations[filter.destination].changes;
    return touched;
  }

  Time began_at(const Operation& operation) const {
    for (const OperationView& view : tables_->operations)
      if (view.id == operation.id) return view.at;
    return tables_->clock.now();
  }

  OperationView& record(const Operation& operation, const std::string& kind, const std::string& destination,
                        const std::string& details = "") {
    for (OperationView& view : tables_->operations) {
      if (view.id != operation.id) continue;
      if (view.kind != kind || view.destination != destination)
        throw Error(Remedy::fix_input, fmt::format("operation {} is a {} of destination '{}'", view.id.to_string(),
                                                   view.kind, view.destination));
      return view;
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
