#pragma once

#include <algorithm>
#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "waybill/store.h"

#include "config/config.h"

namespace waybill::app {

// "1,204 dead letters", "1 dead letter", "10,000+ events": a number of things, for people. `thing` is singular.
std::string counted(const Count& count, std::string_view thing);
std::string counted(std::int64_t count, std::string_view thing);

// May it be done? `yes` says so at once; else a person is asked `question` on the terminal. Throws Error(fix_input) if
// there is none to ask.
bool confirm(const std::string& question, bool yes);

// Who is at work, for the record: `by` if it is given, else USER@host.
std::string operator_name(const config::Environment& environment, const std::string& by);

// The id of the operation that `text` asks to continue; a new one if it is empty. Throws Error(fix_input).
EventId operation_id(const std::string& text);

// "100/s" or "100"; empty: 0, any number. Throws Error(fix_input).
int parse_rate(const std::string& text);

// Keeps long work at a rate of so many in a second; 0: any number.
class Throttle {
 public:
  explicit Throttle(int per_second) : per_second_(per_second) {}

  // Until the next may follow, `done` of them being done. False: it is to stop.
  bool wait(std::int64_t done, const std::stop_token& stop) const;
  // How many may be done at once, if it is `most` at any rate: what is due in a second.
  int most(int most) const { return per_second_ == 0 ? most : std::min(most, per_second_); }

 private:
  const int per_second_;
  const Steady begun_ = system_clock().steady();
};

}  // namespace waybill::app
