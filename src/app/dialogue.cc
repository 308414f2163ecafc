#include "app/dialogue.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <condition_variable>
#include <iostream>
#include <mutex>

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include "waybill/error.h"
#include "waybill/progress.h"

#include "app/terminal.h"

namespace waybill::app {
namespace {

std::string user_name(const config::Environment& environment) {
  for (const char* name : {"USER", "LOGNAME"})
    if (const auto found = environment.find(name); found != environment.end() && !found->second.empty())
      return found->second;
  const passwd* entry = ::getpwuid(::getuid());
  return entry != nullptr ? entry->pw_name : fmt::format("{}", ::getuid());
}

}  // namespace

std::string counted(const Count& count, std::string_view thing) {
  const bool one = count.value == 1 && count.exact;
  return fmt::format("{}{} {}{}", grouped(count.value), count.exact ? "" : "+", thing, one ? "" : "s");
}

std::string counted(std::int64_t count, std::string_view thing) {
  return counted(Count{.value = count}, thing);
}

bool confirm(const std::string& question, bool yes) {
  if (yes) return true;
  if (::isatty(STDIN_FILENO) != 1 || ::isatty(STDERR_FILENO) != 1)
    throw Error(Remedy::fix_input,
                fmt::format("{}? There is no terminal to ask on; add --yes to do it, or --dry-run to only look; "
                            "nothing was changed",
                            question));
  std::cerr << "waybill: " << harmless(question) << "? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return true;
  say("nothing was changed");
  return false;
}

std::string operator_name(const config::Environment& environment, const std::string& by) {
  if (!by.empty()) return by;
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return fmt::format("{}@{}", user_name(environment), host.data());
}

EventId operation_id(const std::string& text) {
  if (text.empty()) return EventId::make();
  const auto id = EventId::parse(text);
  if (!id)
    throw Error(Remedy::fix_input,
                fmt::format("--operation '{}' is no operation's id; 'waybill operations' shows them", text));
  return *id;
}

int parse_rate(const std::string& text) {
  if (text.empty()) return 0;
  std::string_view number = text;
  if (number.ends_with("/s")) number.remove_suffix(2);
  int rate = 0;
  const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), rate);
  constexpr int rate_max = 1'000'000;
  if (error != std::errc() || rest != number.data() + number.size() || rate < 1 || rate > rate_max)
    throw Error(Remedy::fix_input, fmt::format("--rate '{}' is no rate from 1/s to {}/s; write 100/s", text, rate_max));
  return rate;
}

bool Throttle::wait(std::int64_t done, const std::stop_token& stop) const {
  if (per_second_ > 0) {
    std::condition_variable_any pause;
    std::mutex mutex;
    std::unique_lock lock(mutex);
    const auto due = begun_ + std::chrono::microseconds(1'000'000 * done / per_second_);
    pause.wait_until(lock, stop, due, [] { return false; });
  }
  return !stop.stop_requested();
}

}  // namespace waybill::app
