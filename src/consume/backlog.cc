#include "consume/backlog.h"

#include <algorithm>
#include <set>
#include <utility>

namespace waybill::consume {
namespace {

constexpr std::size_t forgotten_max = 10'000;

std::pair<std::string, std::string> name_of(const Waiting& waiting) {
  return {waiting.delivery.event.stream.tenant, waiting.delivery.id};
}

}  // namespace

std::size_t Backlog::first() const {
  std::size_t found = size();
  std::set<std::optional<std::string>> before;
  for (std::size_t i = 0; i < size(); ++i) {
    const Waiting& waiting = waiting_[i];
    const auto& key = waiting.delivery.key;
    const bool has_order = !key || !key->empty();
    if (has_order && before.contains(key)) continue;
    if (found == size() || waiting.due < waiting_[found].due) found = i;
    if (waiting.tries == 0) break;  // Those behind it came later, and are due later.
    if (has_order) before.insert(key);
  }
  return found;
}

void Backlog::add(Waiting waiting, Steady now) {
  if (auto known = failed_.extract(name_of(waiting)); !known.empty()) {
    waiting.tries = known.mapped().tries;
    waiting.failures = known.mapped().failures;
    waiting.was_cut = known.mapped().was_cut;
    waiting.others = known.mapped().others;
  }
  waiting.due = now;
  waiting_.push_back(std::move(waiting));
}

Waiting* Backlog::next(Steady now) {
  const std::size_t found = first();
  return found < size() && waiting_[found].due <= now ? &waiting_[found] : nullptr;
}

Steady Backlog::due() const {
  const std::size_t found = first();
  return found < size() ? waiting_[found].due : Steady::max();
}

void Backlog::settle(std::uint64_t ticket) {
  const auto at =
      std::find_if(waiting_.begin(), waiting_.end(), [&](const Waiting& waiting) { return waiting.ticket == ticket; });
  if (at != waiting_.end()) waiting_.erase(at);
}

void Backlog::forget() {
  for (Waiting& waiting : waiting_) {
    if (waiting.tries == 0) continue;
    auto name = name_of(waiting);
    waiting.delivery = {};
    failed_.insert_or_assign(std::move(name), std::move(waiting));
  }
  // Some may have gone to others, and never come again.
  while (failed_.size() > forgotten_max) failed_.erase(failed_.begin());
  waiting_.clear();
}

std::size_t Backlog::retrying() const {
  return static_cast<std::size_t>(
      std::count_if(waiting_.begin(), waiting_.end(), [](const Waiting& waiting) { return waiting.tries > 0; }));
}

}  // namespace waybill::consume
