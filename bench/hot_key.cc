// One key fails with very many events behind it, and recovers: what the other keys notice of it, what it costs in
// memory, and whether its own order is kept.
//
// Two relays, each with a destination of its own, get the same bursts of events in turn, while the other is paused: one
// refuses the hot key, the other does not. The followers pile up from burst to burst.
#include <algorithm>
#include <fstream>
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
constexpr auto give_up_after = 5min;

bool is_hot(std::int64_t number) {
  return number % one_in == 0;
}

struct Span {
  long first = 0;
  long last = 0;  // and not beyond

  long hot() const { return last / one_in - (first - 1) / one_in; }
  long others() const { return last - first + 1 - hot(); }
};

// Events first to last, by one writer: those of the hot key are in the order of their numbers.
void write_burst(Connection& connection, const Span& span) {
  connection.query(fmt::format(
      "DO $$ BEGIN FOR t IN {}..{} BY 100 LOOP INSERT INTO waybill.event (tenant, topic, type, key, version, payload) "
      "SELECT 'clinic', 'order.paid', 'OrderPaid', CASE WHEN n % {} = 0 THEN 'hot' ELSE 'o-' || n % {} END, n, "
      "(rpad('{{\"order\":\"' || n || '\",\"text\":\"', 510, 'x') || '\"}}')::json "
      "FROM generate_series(t, least(t + 99, {})) n; COMMIT; END LOOP; END $$",
      span.first, span.last, one_in, keys, span.last));
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
  double rate_of_others(const Span& span) {
    const std::size_t before = others_;
    SteadyTime first = SteadyTime::max();
    SteadyTime last{};
    resume();
    until("the others of a burst are delivered", [&](const Delivery& each) {
      if (each.delivered && !is_hot(each.number)) {
        first = std::min(first, each.at);
        last = std::max(last, each.at);
      }
      return std::cmp_greater_equal(others_ - before, span.others());
    });
    return static_cast<double>(span.others() - 1) / std::chrono::duration<double>(last - first).count();
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

}  // namespace

void hot_key(Run& run) {
  const int pairs = run.scale.pairs();
  const long per_burst =
      (run.scale.followers > 0 ? run.scale.followers : run.scale.quick ? 20'000 : 300'000) / pairs * one_in;
  const long followers = per_burst / one_in * pairs;
  const std::string url = run.server.migrated_database();
  Connection connection(url);
  TmpFolder folder;
  const std::string recovered = folder.path() + "/recovered";
  Side failing(connection, url, "failing", {"--refuse", "hot", "--until", recovered});
  Side well(connection, url, "well");
  const std::string waiting = "SELECT count(*) FROM waybill.undelivered WHERE destination = 'failing'";

  write_burst(connection, {.first = 0, .last = 0});
  await("the first event of the hot key has failed", 20ms, [&] { return connection.number(waiting) == 1; });
  well.until_hot(1);
  failing.pause();
  well.pause();

  SizeWatch size(failing.relay().pid());
  std::vector<double> with;
  std::vector<double> without;
  for (int pair = 0; pair < pairs; ++pair) {
    const Span span{.first = pair * per_burst + 1, .last = (pair + 1) * per_burst};
    write_burst(connection, span);
    const auto refused = [&] {
      with.push_back(failing.rate_of_others(span));
      await("the followers wait", 100ms,
            [&] { return connection.number(waiting) == static_cast<double>((pair + 1) * per_burst / one_in + 1); });
      failing.pause();
    };
    const auto taken = [&] {
      without.push_back(well.rate_of_others(span));
      well.until_hot(static_cast<std::size_t>((pair + 1) * per_burst / one_in + 1));
      well.pause();
    };
    if (pair % 2 == 0) {
      refused();
      taken();
    } else {
      taken();
      refused();
    }
  }
  Figure throughput{.name = "hot_key_others_throughput", .goal = at_least(0.9)};
  for (std::size_t i = 0; i < with.size(); ++i) throughput.samples.push_back(with[i] / without[i]);
  throughput.details = {{"while it is blocked events/s", median(with)}, {"without events/s", median(without)}};
  run.report.add(std::move(throughput));

  std::ofstream(recovered).flush();
  failing.resume();
  failing.until_hot(static_cast<std::size_t>(followers) + 1);
  const double seconds =
      std::chrono::duration<double>(failing.hot().back().at - failing.hot().front().at).count();
  await("nothing waits any more", 100ms, [&] { return connection.number(waiting) == 0; });
  const auto [before, largest] = size.stop();
  run.report.add({.name = "hot_key_out_of_order",
                  .unit = "events",
                  .goal = at_most(0),
                  .samples = {static_cast<double>(out_of_order(failing.hot(), followers))},
                  .details = {{"followers", static_cast<double>(followers)},
                              {"other events", static_cast<double>(failing.others())}}});
  run.report.add({.name = "hot_key_rss_growth_mib",
                  .unit = "MiB",
                  .goal = at_most(64),
                  .samples = {largest - before},
                  .details = {{"before MiB", before}, {"largest MiB", largest}}});
  run.report.add({.name = "hot_key_drain_s",
                  .unit = "s",
                  .samples = {seconds},
                  .details = {{"events/s", static_cast<double>(followers) / seconds}}});
  failing.relay().stop();
  well.relay().stop();
  run.server.drop(url);
}

}  // namespace waybill::bench
