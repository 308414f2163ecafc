// Somebody dumps the database while the log is being cleaned: what do those notice who write?
//
// The ring turns in a minute instead of a week. pg_dump holds a lock on every table; whoever cleans wants one slot for
// himself, and everybody who needs that slot stands behind him.
#include <cstdio>
#include <functional>
#include <map>
#include <stop_token>
#include <thread>

#include <fmt/format.h>
#include <sys/wait.h>

#include "waybill/postgres.h"

#include "await.h"
#include "bench.h"
#include "relay_process.h"
#include "upkeep/caretaker.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int rate = 1'000;
constexpr int slot_seconds = 8;
constexpr auto retention = 12s;
// Once a slot. An attempt takes its few milliseconds however fast the ring turns: as often as by default for its speed,
// it would be a load that nobody ever has.
constexpr auto cleaning_interval = 8s;
constexpr long line_bytes_per_s = 8L * 1024 * 1024;
constexpr auto lock_look_interval = 20ms;

// Something done again and again on a thread of its own.
class Repeated {
 public:
  explicit Repeated(std::function<void(const std::stop_token&)> turn)
      : thread_([this, turn = std::move(turn)](const std::stop_token& stop) {
          try {
            while (!stop.stop_requested()) turn(stop);
          } catch (...) {
            failure_ = std::current_exception();
          }
        }) {}

  void stop() {
    thread_.request_stop();
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  std::exception_ptr failure_;
  std::jthread thread_;
};

// One pg_dump of `what` (its options), to its end or until `stop`, read as over a line.
void dump(const std::string& url, const std::string& what, const std::stop_token& stop) {
  const std::string command = fmt::format("exec {} {} '{}'", TmpPostgres::program("pg_dump"), what, url);
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run pg_dump");
  std::vector<char> buffer(64 * 1024);
  const auto begin = std::chrono::steady_clock::now();
  long bytes = 0;
  while (!stop.stop_requested()) {
    const std::size_t some = std::fread(buffer.data(), 1, buffer.size(), pipe);
    if (some == 0) break;
    bytes += static_cast<long>(some);
    std::this_thread::sleep_until(begin + std::chrono::microseconds(bytes * 1'000'000 / line_bytes_per_s));
  }
  // Ends a dump that is not at its end: nobody reads any more.
  const int status = ::pclose(pipe);
  if (!stop.stop_requested() && status != 0) throw std::runtime_error(fmt::format("pg_dump ended with {}", status));
}

// A log whose ring turns fast, is written to, relayed and cleaned; beside an application's table of some size.
class Site {
 public:
  explicit Site(Run& run) : run_(run), url_(run.server.migrated_database()), connection_(url_), relay_(url_, "all") {
    connection_.query(
        fmt::format("ALTER TABLE waybill.event ALTER COLUMN slot SET DEFAULT ((extract(epoch FROM "
                    "clock_timestamp())::bigint / {}) % "
                    "8)::smallint; UPDATE waybill.identity SET slot_seconds = {}",
                    slot_seconds, slot_seconds));
    connection_.query(
        "CREATE TABLE orders AS SELECT n, repeat(md5(n::text), 16) AS text FROM generate_series(1, 400000) n");
    connection_.query("VACUUM ANALYZE orders");
    connection_.query("CHECKPOINT");
    await("a relay owns all shards", 20ms, [&] { return shards_owned(connection_)[relay_.name()].size() == 16; });
  }
  ~Site() { run_.server.drop(url_); }
  Site(const Site&) = delete;
  Site& operator=(const Site&) = delete;

  const std::string& url() const { return url_; }
  Connection& connection() { return connection_; }
  FlakyRelay& relay() { return relay_; }

  void write(std::chrono::seconds duration) {
    const auto some = commit_paced(url_, written(), rate, duration);
    commits_.insert(commits_.end(), some.begin(), some.end());
  }
  const std::vector<Commit>& commits() const { return commits_; }
  long written() const { return static_cast<long>(commits_.size()); }
  double in_log() { return connection_.number("SELECT count(*) FROM waybill.event"); }

 private:
  Run& run_;
  const std::string url_;
  Connection connection_;
  FlakyRelay relay_;
  std::vector<Commit> commits_;  // of event n, at n
};

// What those who write saw in one window of time, in milliseconds.
struct Window {
  double p50 = 0;
  double p99 = 0;
  double longest = 0;
  double cleaned = 0;      // Events that went from the log meanwhile.
  double publish_p99 = 0;  // From the sending of COMMIT to the delivery.
  long first = 0;          // The numbers of its events,
  long end = 0;            // and not this one.
};

double milliseconds(SteadyTime from, SteadyTime to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

Window look(Site& site, std::chrono::seconds duration) {
  const double before = site.in_log();
  Window window{.first = site.written()};
  site.write(duration);
  window.end = site.written();
  window.cleaned = before + static_cast<double>(window.end - window.first) - site.in_log();
  std::vector<double> took;
  for (long n = window.first; n < window.end; ++n) {
    const Commit& commit = site.commits()[static_cast<std::size_t>(n)];
    took.push_back(milliseconds(commit.begun, commit.answered));
  }
  window.p50 = median(took);
  window.p99 = percentile(took, 0.99);
  window.longest = percentile(took, 1);
  return window;
}

Window look_beside_dump(Site& site, const std::string& what, std::chrono::seconds duration) {
  Repeated dumps([&](const std::stop_token& stop) { dump(site.url(), what, stop); });
  // It has all its locks then. A dump goes on for minutes; the half second in which it reads the catalog before would
  // be every thirtieth of our moments.
  await("pg_dump copies", 10ms, [&] {
    return site.connection().number(
               "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pg_dump' AND state = 'active' "
               "AND query LIKE 'COPY public.orders %'") > 0;
  });
  const Window window = look(site, duration);
  dumps.stop();
  return window;
}

Figure p99_ratio(std::string name, Goal goal, const std::vector<std::pair<Window, Window>>& pairs) {
  Figure figure{.name = std::move(name), .goal = goal};
  for (const auto& [with, without] : pairs) figure.samples.push_back(with.p99 / without.p99);
  const auto median_of = [&](auto side, double Window::*value) {
    std::vector<double> values;
    for (const auto& pair : pairs) values.push_back(side(pair).*value);
    return median(values);
  };
  const std::map<std::string, double Window::*> values{{"p50 ms", &Window::p50},
                                                       {"p99 ms", &Window::p99},
                                                       {"longest ms", &Window::longest},
                                                       {"events cleaned", &Window::cleaned},
                                                       {"publish p99 ms", &Window::publish_p99}};
  for (const auto& [what, value] : values) {
    figure.details["with: " + what] = median_of([](const auto& pair) { return pair.first; }, value);
    figure.details["without: " + what] = median_of([](const auto& pair) { return pair.second; }, value);
  }
  return figure;
}

// When each event was first delivered; what has not come a minute after the last was written is lost.
class Arrivals {
 public:
  explicit Arrivals(Site& site) : first_(site.commits().size()) {
    const auto deadline = std::chrono::steady_clock::now() + 1min;
    for (; lost() > 0 && std::chrono::steady_clock::now() < deadline; std::this_thread::sleep_for(50ms))
      for (const Delivery& each : site.relay().deliveries()) {
        SteadyTime& first = first_.at(static_cast<std::size_t>(each.number));
        if (first == SteadyTime{}) ++distinct_;
        if (first == SteadyTime{}) first = each.at;
      }
  }

  std::size_t lost() const { return first_.size() - distinct_; }

  // Adds to what is known of windows how soon their events were delivered.
  void judge(const Site& site, std::vector<std::pair<Window, Window>>& pairs) const {
    for (auto& [with, without] : pairs)
      for (Window* const window : {&with, &without}) {
        std::vector<double> took;
        for (auto n = static_cast<std::size_t>(window->first); n < static_cast<std::size_t>(window->end); ++n)
          if (first_[n] != SteadyTime{}) took.push_back(milliseconds(site.commits()[n].sent, first_[n]));
        window->publish_p99 = percentile(took, 0.99);
      }
  }

 private:
  std::vector<SteadyTime> first_;
  std::size_t distinct_ = 0;
};

// Looks again and again whether somebody who enqueues waits for a lock on a table.
class LockWatch {
 public:
  explicit LockWatch(const std::string& url)
      : connection_(url), looking_([this](const std::stop_token&) {
          blocked_ += connection_.number(
              "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
              "AND wait_event = 'relation' AND query LIKE 'INSERT INTO \"waybill\".event %'");
          ++looks_;
          std::this_thread::sleep_for(lock_look_interval);
        }) {}

  Figure stop() {
    looking_.stop();
    return {.name = "dump_producers_blocked",
            .unit = "sightings",
            .goal = at_most(0),
            .samples = {blocked_},
            .details = {{"looks", looks_}}};
  }

 private:
  Connection connection_;
  double blocked_ = 0;
  double looks_ = 0;
  Repeated looking_;
};

}  // namespace

void dump_beside_cleaning(Run& run) {
  const std::chrono::seconds duration(run.scale.window_seconds > 0 ? run.scale.window_seconds
                                      : run.scale.quick            ? 4
                                                                   : 16);
  Site site(run);
  const auto store = postgres_store({.url = site.url()});
  Caretaker caretaker(*store, {.clean = {.events_older_than = retention}, .interval = cleaning_interval});
  const std::jthread cleaning([&](const std::stop_token& stop) { caretaker.run(stop); });
  LockWatch locks(site.url());
  site.write(duration);  // The first to write pays for new files.

  // A dump costs everybody processor time; what it costs those who write because it holds our tables is told by one
  // that does not: of the application's table alone, as fast.
  const auto beside_dump = [&] { return look_beside_dump(site, "", duration); };
  auto by_dump = side_by_side<Window>(run.scale.pairs() + 2, beside_dump, [&] { return look(site, duration); });
  auto by_locks = side_by_side<Window>(run.scale.pairs() + 2, beside_dump,
                                       [&] { return look_beside_dump(site, "-t orders", duration); });
  const Figure blocked = locks.stop();
  const Arrivals arrivals(site);
  arrivals.judge(site, by_dump);
  arrivals.judge(site, by_locks);
  run.report.add(p99_ratio("dump_commit_p99", at_most(1.1), by_dump));
  run.report.add(p99_ratio("dump_commit_p99_by_locks", at_most(1.1), by_locks));
  run.report.add(blocked);
  run.report.add({.name = "dump_lost",
                  .unit = "events",
                  .goal = at_most(0),
                  .samples = {static_cast<double>(arrivals.lost())},
                  .details = {{"written", static_cast<double>(site.written())}, {"left in the log", site.in_log()}}});
  site.relay().stop();
}

}  // namespace waybill::bench
