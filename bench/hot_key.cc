// One key fails with very many events behind it, and recovers: what the other keys notice of it, what it costs in
// memory, and whether its own order is kept.
//
// Two relays, each with a destination of its own, get the same bursts of events in turn, while the other is paused: one
// refuses the hot key, the other does not. The followers pile up from burst to burst. Half of the bursts are for a
// destination that takes 40,000 events a second, as a broker with replicas does; the other half for one that costs
// nothing, which leaves the engine's own work.
#include <algorithm>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <thread>

#include <fmt/format.h>

#include "await.h"
#include "bench.h"
#include "relay_process.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr long one_in = 6;  // Every sixth event is of the hot key.
constexpr int broker_us = 25;
constexpr auto give_up_after = 5min;

bool is_hot(std::int64_t number) {
  return number % one_in == 0;
}

struct Burst {
  long first = 0;
  long last = 0;
  int cost_us = 0;  // To the destination, of each event.

  long hot() const { return last / one_in - (first - 1) / one_in; }
  long others() const { return last - first + 1 - hot(); }
};

// Events first to last, by one writer: those of the hot key are in the order of their numbers.
void write_burst(Connection& connection, const Burst& burst) {
  connection.query(fmt::format(
      "DO $$ BEGIN FOR t IN {}..{} BY 100 LOOP INSERT INTO waybill.event (tenant, topic, type, key, version, "
      "schema_version, payload) "
      "SELECT 'clinic', 'order.paid', 'OrderPaid', CASE WHEN n % {} = 0 THEN 'hot' ELSE 'o-' || n % {} END, n, {}, "
      "(rpad('{{\"order\":\"' || n || '\",\"text\":\"', 510, 'x') || '\"}}')::json "
      "FROM generate_series(t, least(t + 99, {})) n; COMMIT; END LOOP; END $$",
      burst.first, burst.last, one_in, keys, burst.cost_us, burst.last));
}

// A relay with its destination: what came there.
class Side {
 public:
  Side(Connection& connection, const std::string& url, std::string name, const std::vector<std::string>& moods = {})
      : connection_(connection), name_(std::move(name)), relay_(url, name_, moods) {
    await("a relay owns all shards", 20ms, [&] { return shards_owned(connection_)[relay_.name()].size() == 16; });
  }

  void pause() { connection_.query(fmt::format("SELECT waybill.pause('{}')", name_)); }
  void resume() { connection_.query(fmt::format("SELECT waybill.resume('{}')", name_)); }
  FlakyRelay& relay() { return relay_; }
  const std::vector<Delivery>& hot() const { return hot_; }
  std::size_t others() const { return others_; }

  // Lets the burst through; events of other keys in a second, from the first of them to the last.
  double rate_of_others(const Burst& burst) {
    const std::size_t before = others_;
    SteadyTime first = SteadyTime::max();
    SteadyTime last{};
    resume();
    until("the others of a burst are delivered", [&](const Delivery& each) {
      if (each.delivered && !is_hot(each.number)) {
        first = std::min(first, each.at);
        last = std::max(last, each.at);
      }
      return std::cmp_greater_equal(others_ - before, burst.others());
    });
    return static_cast<double>(burst.others() - 1) / std::chrono::duration<double>(last - first).count();
  }

  // Takes note of deliveries until `enough(delivery)`.
  template <typename Enough>
  void until(const std::string& what, const Enough& enough) {
    const auto deadline = std::chrono::steady_clock::now() + give_up_after;
    for (bool done = false; !done; std::this_thread::sleep_for(10ms)) {
      for (const Delivery& each : relay_.deliveries()) {
        if (each.delivered && is_hot(each.number)) hot_.push_back(each);
        if (each.delivered && !is_hot(each.number)) ++others_;
        done = enough(each) || done;
      }
      if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error("waited in vain: " + what);
    }
  }
  void until_hot(std::size_t count) {
    if (hot_.size() < count)
      until(fmt::format("{} events of the hot key are delivered", count),
            [&](const Delivery&) { return hot_.size() >= count; });
  }

 private:
  Connection& connection_;
  const std::string name_;
  FlakyRelay relay_;
  std::vector<Delivery> hot_;
  std::size_t others_ = 0;
};

// The largest that a process becomes.
class SizeWatch {
 public:
  explicit SizeWatch(pid_t process)
      : before_(rss_mib(process)), thread_([this, process](const std::stop_token& stop) {
          for (; !stop.stop_requested(); std::this_thread::sleep_for(50ms))
            largest_ = std::max(largest_, rss_mib(process));
        }) {}

  struct Sizes {
    double before = 0;
    double largest = 0;
  };
  Sizes stop() {
    thread_.request_stop();
    thread_.join();
    return {.before = before_, .largest = largest_};
  }

 private:
  const double before_;
  double largest_ = 0;
  std::jthread thread_;
};

// Events of the hot key that came twice, not after all before them, or never.
long out_of_order(const std::vector<Delivery>& hot, long followers) {
  long wrong = std::max(0L, followers + 1 - static_cast<long>(hot.size()));
  for (std::size_t i = 0; i < hot.size(); ++i) wrong += hot[i].number == static_cast<long>(i) * one_in ? 0 : 1;
  return wrong;
}

class HotKey {
 public:
  explicit HotKey(Run& run)
      : run_(run),
        url_(run.server.migrated_database()),
        connection_(url_),
        recovered_(folder_.path() + "/recovered"),
        failing_(connection_, url_, "failing", {"--refuse", "hot", "--until", recovered_}),
        well_(connection_, url_, "well") {
    write_burst(connection_, {});
    await_followers(0);
    well_.until_hot(1);
    failing_.pause();
    well_.pause();
    size_.emplace(failing_.relay().pid());
  }
  ~HotKey() { run_.server.drop(url_); }
  HotKey(const HotKey&) = delete;
  HotKey& operator=(const HotKey&) = delete;

  // Bursts with so many followers in all, side by side: the other keys' rate while the hot key is blocked, and while
  // not.
  Figure others(std::string name, Goal goal, long followers, int cost_us) {
    Figure figure{.name = std::move(name), .goal = goal};
    const int pairs = run_.scale.pairs();
    std::vector<double> with;
    std::vector<double> without;
    for (int pair = 0; pair < pairs; ++pair) {
      const Burst burst{.first = last_ + 1, .last = last_ + followers / pairs * one_in, .cost_us = cost_us};
      write_burst(connection_, burst);
      last_ = burst.last;
      if (pair % 2 == 0) with.push_back(rate_while_blocked(burst));
      without.push_back(rate_otherwise(burst));
      if (pair % 2 != 0) with.push_back(rate_while_blocked(burst));
      figure.samples.push_back(with.back() / without.back());
    }
    figure.details = {{"while it is blocked events/s", median(with)}, {"otherwise events/s", median(without)}};
    return figure;
  }

  // The hot key is taken from now on, until nothing waits any more.
  void recover() {
    std::ofstream(recovered_).flush();
    failing_.resume();
    failing_.until_hot(static_cast<std::size_t>(followers()) + 1);
    await("nothing waits any more", 100ms, [&] { return connection_.number(waiting) == 0; });
    report();
    failing_.relay().stop();
    well_.relay().stop();
  }

 private:
  static constexpr const char* waiting = "SELECT count(*) FROM waybill.undelivered WHERE destination = 'failing'";

  long followers() const { return last_ / one_in; }
  void await_followers(long count) {
    await("the followers wait", 100ms, [&] { return connection_.number(waiting) == static_cast<double>(count + 1); });
  }
  double rate_while_blocked(const Burst& burst) {
    const double rate = failing_.rate_of_others(burst);
    await_followers(followers());
    failing_.pause();
    return rate;
  }
  double rate_otherwise(const Burst& burst) {
    const double rate = well_.rate_of_others(burst);
    well_.until_hot(static_cast<std::size_t>(followers()) + 1);
    well_.pause();
    return rate;
  }
  void report() {
    const auto& hot = failing_.hot();
    const double seconds = std::chrono::duration<double>(hot.back().at - hot.front().at).count();
    const auto [before, largest] = size_->stop();
    run_.report.add({.name = "hot_key_out_of_order",
                     .unit = "events",
                     .goal = at_most(0),
                     .samples = {static_cast<double>(out_of_order(hot, followers()))},
                     .details = {{"followers", static_cast<double>(followers())},
                                 {"other events", static_cast<double>(failing_.others())}}});
    run_.report.add({.name = "hot_key_rss_growth_mib",
                     .unit = "MiB",
                     .goal = at_most(64),
                     .samples = {largest - before},
                     .details = {{"before MiB", before}, {"largest MiB", largest}}});
    run_.report.add({.name = "hot_key_drain_s",
                     .unit = "s",
                     .samples = {seconds},
                     .details = {{"events/s", static_cast<double>(followers()) / seconds}}});
  }

  Run& run_;
  const std::string url_;
  Connection connection_;
  TmpFolder folder_;
  const std::string recovered_;
  Side failing_;
  Side well_;
  std::optional<SizeWatch> size_;
  long last_ = 0;
};

}  // namespace

void hot_key(Run& run) {
  const long followers = run.scale.followers > 0 ? run.scale.followers : run.scale.quick ? 20'000 : 300'000;
  HotKey key(run);
  run.report.add(key.others("hot_key_others_throughput", at_least(0.9), followers / 2, broker_us));
  run.report.add(key.others("hot_key_others_throughput_free", {}, followers / 2, 0));
  key.recover();
}

}  // namespace waybill::bench
