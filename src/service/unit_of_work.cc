#include "waybill/unit_of_work.h"

#include <algorithm>

#include "waybill/enqueue.h"

namespace waybill {

UnitOfWork::UnitOfWork(Connection& connection, Options options)
    : options_(std::move(options)), events_(options_.schema), transaction_(connection, options_.transaction) {}

void UnitOfWork::enter(Entry entry) {
  const bool known = std::any_of(tracked_.begin(), tracked_.end(),
                                 [&](const Entry& other) { return other.aggregate == entry.aggregate; });
  if (!known) tracked_.push_back(std::move(entry));
}

void UnitOfWork::add(Event event) {
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
    if (!entry.new_events().empty()) entry.save(connection());
  for (const Entry& entry : tracked_)
    versions_.push_back(entry.new_events().empty() ? entry.version() : write_events(entry));
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
