#include "waybill/unit_of_work.h"

#include <algorithm>
#include <tuple>

#include "waybill/enqueue.h"

namespace waybill {

UnitOfWork::UnitOfWork(Connection& connection, Options options)
    : options_(std::move(options)), events_(options_.schema), transaction_(connection, options_.transaction) {}

void UnitOfWork::enter(Entry entry) {
  const auto known = std::find_if(tracked_.begin(), tracked_.end(),
                                  [&](const Entry& other) { return other.aggregate == entry.aggregate; });
  if (known == tracked_.end()) {
    tracked_.push_back(std::move(entry));
  } else if (!known->save) {
    known->save = std::move(entry.save);
    known->function = entry.function;
  } else if (entry.save &&
             (entry.save.target_type() != known->save.target_type() || entry.function != known->function)) {
    throw Error(Remedy::fix_input, "the unit of work tracks this aggregate already, with another way to save it");
  }
}

void UnitOfWork::add(Event event) {
  if (!options_.transaction.tenant.empty() && event.tenant == Event{}.tenant)
    event.tenant = options_.transaction.tenant;
  add_context(event);
  added_.push_back(std::move(event));
}

void UnitOfWork::commit() {
  if (!transaction_.open()) throw Error(Remedy::fix_input, "the unit of work has ended; begin another one");
  try {
    write();
    transaction_.commit();
  } catch (...) {
    transaction_.rollback();
    throw;
  }
  for (std::size_t i = 0; i < tracked_.size(); ++i)
    if (!tracked_[i].new_events().empty()) tracked_[i].committed(versions_[i]);
  tracked_.clear();
  added_.clear();
}

void UnitOfWork::write() {
  for (const Entry& entry : tracked_)
    if (entry.save && !entry.new_events().empty()) entry.save(connection());
  // In one order for all: so units that have streams in common wait for each other, and not each for the other.
  std::vector<std::tuple<std::string, std::string, std::string, std::size_t>> order;
  for (const Entry& entry : tracked_) {
    StreamId stream = entry.stream();
    order.emplace_back(std::move(stream.tenant), std::move(stream.type), std::move(stream.id), order.size());
  }
  std::sort(order.begin(), order.end());
  versions_.resize(tracked_.size());
  for (const auto& place : order) {
    const std::size_t i = std::get<std::size_t>(place);
    versions_[i] = tracked_[i].new_events().empty() ? tracked_[i].version() : write_events(tracked_[i]);
  }
  if (!added_.empty()) enqueue(connection(), added_, {.schema = options_.schema});
}

std::int64_t UnitOfWork::write_events(const Entry& entry) {
  const StreamId stream = entry.stream();
  std::int64_t version = entry.version();
  const std::span<const Event> recorded = entry.new_events();
  if (options_.streams) return events_.append(connection(), stream, Expected::version(version), recorded);
  std::vector<Event> events(recorded.begin(), recorded.end());
  for (Event& event : events) {
    event.aggregate = {stream.type, stream.id};
    event.tenant = stream.tenant;
    event.version = ++version;
  }
  enqueue(connection(), events, {.schema = options_.schema});
  return version;
}

}  // namespace waybill
