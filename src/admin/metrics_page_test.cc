#include "admin/metrics_page.h"

#include <regex>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/testing.h"

#include "support/raw_http_client.h"
#include "support/store_wrapper.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsSubsetOf;
using testing::IsSupersetOf;
using testing::Not;

class MetricsPageTest : public testing::Test {
 protected:
  MetricsPageTest() {
    add_metrics(
        server_, [this] { return metrics_; }, [this] { return metrics_.health; });
    server_.start();
  }
  http::Reply get(std::string_view path) { return http::RawClient(server_.port()).get(path); }

  // Set before the first request.
  Metrics metrics_{.version = "1.2.3"};
  http::Server server_{{}};
};

TEST_F(MetricsPageTest, TellsWhatTheRelayKnows) {
  metrics_.health = {.running = true, .store_up = true, .lease = 5s};
  metrics_.destinations["mail"] = {.delivered = 7,
                                   .failed = 2,
                                   .failed_with = {{Outcome::Kind::retry, 2}},
                                   .latency = {.buckets = {{.upto = 1ms, .count = 3}}, .count = 7, .sum = 1500ms},
                                   .lag = 20ms,
                                   .leases = 4,
                                   .breaker = {.open = true, .reason = "secret-canary"},
                                   .trusted_until = Time(1'800'000'000s)};
  metrics_.held_back = 1;
  const auto reply = get("/metrics");
  EXPECT_EQ(200, reply.status);
  EXPECT_EQ("text/plain; version=0.0.4; charset=utf-8", reply.headers.at("content-type"));
  for (const auto* line :
       {"waybill_build_info{version=\"1.2.3\"} 1\n", "waybill_events_published_total{destination=\"mail\"} 7\n",
        "waybill_attempts_failed_total{destination=\"mail\",outcome=\"retry\"} 2\n",
        "waybill_publish_seconds_bucket{destination=\"mail\",le=\"0.001\"} 3\n",
        "waybill_publish_seconds_bucket{destination=\"mail\",le=\"+Inf\"} 7\n",
        "waybill_publish_seconds_sum{destination=\"mail\"} 1.5\n", "waybill_lag_seconds{destination=\"mail\"} 0.02\n",
        "waybill_relay_leases{destination=\"mail\"} 4\n", "waybill_breaker_open{destination=\"mail\"} 1\n",
        "waybill_certificate_expires_timestamp_seconds{destination=\"mail\"} 1800000000\n", "waybill_store_up 1\n",
        "waybill_log_held_back 1\n"})
    EXPECT_THAT(reply.body, HasSubstr(line));
  EXPECT_THAT(reply.body, Not(HasSubstr("canary")));
  EXPECT_THAT(reply.body, Not(HasSubstr("waybill_pending")));  // The store has not answered: no figure is better.
}

TEST_F(MetricsPageTest, TellsWhatTheStoreKnows) {
  const Time now = ManualClock().now();
  metrics_.figures = {.status = {.now = now,
                                 .destinations = {{.name = "mail",
                                                   .undelivered = {{Standing::dead, {.value = 3}}},
                                                   .blocked_keys = {.value = 2},
                                                   .pending = {.value = 10},
                                                   .oldest_pending = now - 90s}},
                                 .projections = {{.name = "room", .handled = 7, .behind = 2, .lag = 1500ms}}},
                      .age = 2500ms};
  const auto reply = get("/metrics");
  for (const auto* line :
       {"waybill_pending{destination=\"mail\"} 10\n", "waybill_oldest_pending_age_seconds{destination=\"mail\"} 90\n",
        "waybill_undelivered{destination=\"mail\",standing=\"dead\"} 3\n",
        "waybill_undelivered{destination=\"mail\",standing=\"held\"} 0\n",
        "waybill_blocked_keys{destination=\"mail\"} 2\n", "waybill_figures_age_seconds 2.5\n",
        "waybill_projection_lag_seconds{projection=\"room\",shadow=\"false\"} 1.5\n"})
    EXPECT_THAT(reply.body, HasSubstr(line));
}

// Whoever reads the metrics learns nothing of tenants, and their number does not grow with that of tenants, keys or
// topics.
TEST_F(MetricsPageTest, Security47_LabelsNameNeitherTenantsNorKeys) {
  metrics_.destinations["mail"] = {.delivered = 1, .failed_with = {{Outcome::Kind::retry, 2}}};
  metrics_.figures = {.status = {.destinations = {{.name = "mail"}}, .projections = {{.name = "room"}}}};
  const std::string body = get("/metrics").body;
  const std::regex label(R"re((\w+)=")re");
  std::set<std::string> names;
  for (auto at = std::sregex_iterator(body.begin(), body.end(), label); at != std::sregex_iterator(); ++at)
    names.insert((*at)[1]);
  EXPECT_THAT(names, IsSupersetOf({"destination", "outcome"}));
  EXPECT_THAT(names,
              IsSubsetOf({"version", "destination", "outcome", "le", "standing", "projection", "shadow", "arrived"}));
}

TEST_F(MetricsPageTest, IsAliveWhileTheRelayTurns) {
  metrics_.health = {.running = true, .store_up = true, .since_beat = 14s, .lease = 5s};
  EXPECT_EQ("ok\n", get("/livez").body);
}

TEST_F(MetricsPageTest, SaysInOneLineWhatHangs) {
  metrics_.health = {.running = true, .store_up = true, .since_beat = 16s, .since_turn = 16s, .lease = 5s};
  const auto reply = get("/livez");
  EXPECT_EQ(503, reply.status);
  EXPECT_EQ("the relay hangs: its last heartbeat was 16 s ago, the last turn of its keeper 16 s\n", reply.body);
}

TEST_F(MetricsPageTest, Security2_AStrangersPageLearnsNothing) {
  for (const auto* path : {"/metrics", "/livez"}) {
    http::RawClient client(server_.port());
    client.send(fmt::format("GET {} HTTP/1.1\r\nHost: evil.example:{}\r\n\r\n", path, server_.port()));
    EXPECT_EQ(421, client.read_reply().status) << path;
    http::RawClient poster(server_.port());
    poster.ask("POST", path, "Content-Length: 0\r\n");
    const auto reply = poster.read_reply();
    EXPECT_EQ(405, reply.status) << path;
    EXPECT_EQ("GET, HEAD", reply.headers.at("allow"));
  }
}

class FiguresTest : public testing::Test {
 protected:
  // A store that can be away.
  class Away final : public WrappedStore {
   public:
    using WrappedStore::WrappedStore;
    std::unique_ptr<Inspector> inspector() override {
      ++asked;
      if (away) throw Error(Remedy::retry, "away");
      return WrappedStore::inspector();
    }
    bool away = false;
    int asked = 0;
  };

  void live(std::chrono::milliseconds time) {
    const Steady end = clock_.steady() + time;
    while (clock_.steady() < end) {
      const Steady next = std::min(end, figures_.step());
      clock_.advance(std::chrono::ceil<std::chrono::microseconds>(next - clock_.steady()));
    }
  }

  ManualClock clock_;
  std::unique_ptr<Store> memory_ = memory_store({}, clock_);
  Away store_{*memory_};
  Figures figures_{store_, clock_};
};

TEST_F(FiguresTest, AreAFewSecondsOldAtMost) {
  EXPECT_FALSE(figures_.read());
  live(4s);
  ASSERT_TRUE(figures_.read());
  EXPECT_EQ(4s, figures_.read()->age);
  live(3s);
  EXPECT_EQ(2s, figures_.read()->age);
}

TEST_F(FiguresTest, AnOldFigureIsNone) {
  live(1s);
  store_.away = true;
  // The connection it has still works; the next one is refused.
  live(7min);
  EXPECT_FALSE(figures_.read());
  live(20s);
  EXPECT_FALSE(figures_.read());
  EXPECT_GT(store_.asked, 2);
  store_.away = false;
  live(6s);
  EXPECT_TRUE(figures_.read());
}

TEST_F(FiguresTest, UntilSomebodyReadsTheStoreIsAskedOnce) {
  live(20s);
  ASSERT_TRUE(figures_.read());
  EXPECT_EQ(20s, figures_.read()->age);
  live(6s);
  EXPECT_EQ(1s, figures_.read()->age);
}

TEST_F(FiguresTest, NobodyIsAskedWhenNobodyReads) {
  live(10min);
  const int asked = store_.asked;
  live(1h);
  EXPECT_EQ(asked, store_.asked);
  EXPECT_FALSE(figures_.read());
  live(6s);
  EXPECT_TRUE(figures_.read());
}

}  // namespace
}  // namespace waybill
