#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "waybill/event.h"

#include "server.h"

namespace waybill::bench {

inline constexpr int keys = 10'000;

// The contract's columns that the workload sets, the id among them; and everything a relay reads.
extern const std::string contract_columns;
extern const std::string relay_columns;

// Event n: every column of the contract set, a payload of 512 bytes, one of 10,000 keys.
Event event_number(long n);
// The same as an expression list over `n`, in the order of contract_columns.
extern const std::string event_expressions;

// Fills the log with events 1 to `count`, a hundred a transaction, as a busy day would have left it: vacuumed.
void load_events(const std::string& url, long count);

// Runs `clients` threads, each calling a function of its own making again and again; calls per second.
using Client = std::function<void()>;
double calls_per_second(int clients, std::chrono::milliseconds duration, const std::function<Client(int)>& make);

// Calls `act(n)`, n from 0 up, `rate` times a second in all, from `threads` threads, each made by `make`.
using PacedClient = std::function<void(long)>;
void pace(int threads, int rate, std::chrono::milliseconds duration, const std::function<PacedClient(int)>& make);

// What enqueue_sql() takes for an event.
Connection::Parameters enqueue_parameters(const Event& event);
std::string enqueue_sql();

// When a transaction was begun, when its COMMIT was sent, and when that was answered.
struct Commit {
  std::chrono::steady_clock::time_point begun{};
  std::chrono::steady_clock::time_point sent{};
  std::chrono::steady_clock::time_point answered{};
};
// Commits events first, first + 1, …, each in a transaction of its own, from four clients, so many a second. Those of a
// key are written one after the other.
std::vector<Commit> commit_paced(const std::string& url, long first, int rate, std::chrono::milliseconds duration);

// Two ways of doing something, side by side: in turn, who is first changing from pair to pair.
template <typename Result>
std::vector<std::pair<Result, Result>> side_by_side(int pairs, const std::function<Result()>& one,
                                                    const std::function<Result()>& other) {
  std::vector<std::pair<Result, Result>> results;
  for (int pair = 0; pair < pairs; ++pair) {
    if (pair % 2 == 0) {
      Result first = one();
      results.emplace_back(std::move(first), other());
    } else {
      Result first = other();
      results.emplace_back(one(), std::move(first));
    }
  }
  return results;
}

}  // namespace waybill::bench
