// Seed 004, "Outbox Pattern" (事务性事件发布模式): its states, its principles, its figures to watch, its questions.

#include "seeds/seed_fixture.h"

namespace waybill {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Seed004 : public SeedTest {
 protected:
  // Its outbox.add(), within a transaction or without.
  std::string add(Sql& connection, const std::string& topic, const std::string& aggregate = "o-1",
                  const std::string& tenant = "default") {
    return enqueue(connection.raw(), Event{.topic = topic,
                                           .aggregate = {"order", aggregate},
                                           .payload = R"({"order_id":"123","total":99.99})",
                                           .tenant = tenant})
        .to_string();
  }
  void add_many(int number) {
    app("INSERT INTO event (topic, key, payload) SELECT 'order.created', n::text, '{}' FROM generate_series(1, " +
        std::to_string(number) + ") n");
  }
  std::string status(const std::string& id) { return shown(id, "status", "outbox"); }
};

// 手动模式
TEST_F(Seed004, Manual_mode) {
  app("BEGIN");
  const std::string id = add(app, "order.created");
  app("COMMIT");
  EXPECT_EQ("default|o-1|order|order.created|{\"order_id\":\"123\",\"total\":99.99}|NEW|0|1",
            shown(id, "tenant_id, aggregate_id, aggregate_type, topic, payload, status, retry_count, schema_version",
                  "outbox"));
}

// 状态流转: NEW → PUBLISHING → SENT; FAILED and retry_count++; DEAD after five.
TEST_F(Seed004, State_flow) {
  const std::string sent = add(app, "order.created", "o-1");
  const std::string dead = add(app, "order.created", "o-2");
  EXPECT_EQ("NEW", status(sent));
  Publisher bus{.should_fail = true};
  publish_pending(bus, 5);
  EXPECT_EQ("FAILED|1|t", shown(sent, "status, retry_count, retry_after > now()", "outbox"));

  Sql observer(url);
  bus.only = "o-2";
  std::set<std::string> under_way;
  bus.while_publishing = [&] {
    under_way.insert(observer("SELECT status FROM waybill.outbox WHERE id = '" + bus.last_event.id + "'"));
  };
  publish_pending(bus, 3, 5);
  EXPECT_THAT(under_way, ElementsAre("PUBLISHING"));
  EXPECT_EQ("SENT", status(sent));
  EXPECT_EQ("FAILED|4", shown(dead, "status, retry_count", "outbox"));
  publish_pending(bus, 1, 5);
  EXPECT_EQ("DEAD|5|publisher failure", shown(dead, "status, retry_count, error_message", "outbox"));
}

// 设计原则 1. 事务一致性
TEST_F(Seed004, Principle_1_transactional_consistency) {
  app("CREATE TABLE public.orders (id text)");
  Sql other(url);
  other("BEGIN; INSERT INTO public.orders VALUES ('o-1')");
  add(other, "order.created");
  other("ROLLBACK");
  EXPECT_EQ(0, count("public.orders"));
  EXPECT_EQ(0, count("outbox"));
  other("BEGIN; INSERT INTO public.orders VALUES ('o-1')");
  add(other, "order.created");
  other("COMMIT");
  EXPECT_EQ(1, count("public.orders"));
  EXPECT_EQ(1, count("outbox"));
}

// 设计原则 2. At-least-once
TEST_F(Seed004, Principle_2_At_least_once) {
  Publisher bus{.should_fail = true, .failure = Outcome::Kind::unknown};
  const std::string id = add(app, "order.created");
  publish_pending(bus);
  EXPECT_EQ("FAILED", status(id)) << "it may have arrived";
  bus.should_fail = false;
  publish_pending(bus, 1, 5);
  ASSERT_EQ(1U, bus.published_events.size());
  EXPECT_EQ(id, bus.published_events[0].id);
}

// 设计原则 3. 顺序保证
TEST_F(Seed004, Principle_3_order_per_aggregate) {
  std::vector<std::string> of_one;
  for (int i = 0; i < 20; ++i) {
    of_one.push_back(add(app, "order." + std::to_string(i), "o-1"));
    add(app, "order." + std::to_string(i), "o-2");
  }
  Publisher bus{.should_fail = true, .only = "o-1"};
  publish_pending(bus);
  bus.should_fail = false;
  publish_pending(bus, 1, 5);
  std::vector<std::string> arrived;
  for (const auto& event : bus.published_events)
    if (event.aggregate_id == "o-1") arrived.push_back(event.id);
  EXPECT_EQ(of_one, arrived);
  EXPECT_EQ(40U, bus.published_events.size());
}

// 设计原则 4. 多租户支持: neither sees nor holds up the other.
TEST_F(Seed004, Principle_4_multi_tenancy) {
  const std::string ours = add(app, "order.created", "o-1", "ours");
  const std::string theirs = add(app, "order.created", "o-1", "theirs");
  EXPECT_THAT(app.column("SELECT id FROM outbox WHERE tenant_id = 'ours' AND status = 'NEW'"), ElementsAre(ours));
  Publisher bus{.should_fail = true, .failure = Outcome::Kind::rejected};
  bus.while_publishing = [&] { bus.should_fail = bus.last_event.tenant == "ours"; };
  publish_pending(bus);
  EXPECT_EQ("DEAD", status(ours));
  EXPECT_EQ("SENT", status(theirs));
}

// 监控指标 outbox_backlog, of what is NEW: > 1000
TEST_F(Seed004, Metric_outbox_backlog) {
  Publisher bus;
  publish_pending(bus);
  add_many(1'000);
  EXPECT_EQ(1'000, count("outbox WHERE status = 'NEW'"));
  EXPECT_THAT(alerts(), Not(Contains("backlog")));
  add_many(1);
  EXPECT_THAT(alerts(), Contains("backlog"));
}

// 监控指标 outbox_failed, of what is FAILED: > 10
TEST_F(Seed004, Metric_outbox_failed) {
  Publisher bus{.should_fail = true};
  add_many(10);
  publish_pending(bus);
  EXPECT_EQ(10, count("outbox WHERE status = 'FAILED'"));
  EXPECT_THAT(alerts(), Not(Contains("retrying")));
  add(app, "order.created");
  publish_pending(bus);
  EXPECT_THAT(alerts(), Contains("retrying"));
}

// 监控指标 outbox_dead: > 0
TEST_F(Seed004, Metric_outbox_dead) {
  Publisher bus{.should_fail = true, .failure = Outcome::Kind::rejected};
  publish_pending(bus);
  EXPECT_THAT(alerts(), IsEmpty());
  add(app, "order.created");
  publish_pending(bus);
  EXPECT_EQ(1, count("outbox WHERE status = 'DEAD'"));
  EXPECT_THAT(alerts(), Contains("dead"));
}

// 监控指标 outbox_publish_latency: > 5s
TEST_F(Seed004, Metric_outbox_publish_latency) {
  Publisher bus;
  publish_pending(bus);
  app("UPDATE cursor SET settled_at = settled_at - interval '1 minute'");
  // Younger than that for as long as this test may take.
  app("INSERT INTO event (topic, payload, created_at) VALUES ('t', '{}', clock_timestamp() + interval '60 s')");
  EXPECT_THAT(alerts(), Not(Contains("lag")));
  app("INSERT INTO event (topic, payload, created_at) VALUES ('t', '{}', clock_timestamp() - interval '6 s')");
  EXPECT_THAT(alerts(), Contains("lag"));
}

// 常见问题: Projector 崩溃会丢失事件吗？
TEST_F(Seed004, FAQ_projector_crash_loses_nothing) {
  const std::string id = add(app, "order.created");
  {
    Publisher lost{.answers = false};
    Relay crashed(*store, {.name = "crashed"});
    crashed.add({.name = "events"}, std::make_unique<PublisherSink>(lost));
    ASSERT_TRUE(eventually([&] { return crashed.step() == 0 && lost.publish_count == 1; }, 30s));
    app("UPDATE relay SET alive_until = clock_timestamp() - interval '1 s'");
    Publisher bus;
    publish_pending(bus);
    ASSERT_EQ(1U, bus.published_events.size());
    EXPECT_EQ(id, bus.published_events[0].id);
  }
  EXPECT_EQ("SENT", status(id));
}

// 常见问题: 如何处理死信？ 1. 重置 status=NEW  2. 查看 error_message  3. 手动重放或删除
TEST_F(Seed004, FAQ_dead_letters) {
  Publisher bus{.should_fail = true, .failure = Outcome::Kind::rejected, .error = "schema 7 is unknown"};
  const std::string replayed = add(app, "order.created", "o-1");
  const std::string removed = add(app, "order.created", "o-2");
  publish_pending(bus);
  EXPECT_EQ("schema 7 is unknown", shown(replayed, "error_message", "outbox"));
  EXPECT_THAT(said_to("UPDATE outbox SET status = 'NEW' WHERE id = '" + replayed + "'"), HasSubstr("waybill.redrive("));
  EXPECT_THAT(said_to("DELETE FROM outbox WHERE id = '" + removed + "'"), HasSubstr("waybill.dismiss("));
  EXPECT_EQ(1, waybill("dead redrive " + replayed + " --yes").at("changed"));
  EXPECT_EQ(1, waybill("dead dismiss " + removed + " --yes").at("changed"));
  EXPECT_EQ("DISMISSED", status(removed));
  bus.should_fail = false;
  publish_pending(bus);
  EXPECT_EQ("SENT", status(replayed));
  EXPECT_EQ(1U, bus.published_events.size());
}

// 常见问题: 如何清理已发送的事件？
TEST_F(Seed004, FAQ_cleaning) {
  add(app, "order.created");
  Publisher bus;
  publish_pending(bus);
  eight_days_pass();
  EXPECT_THAT(said_to(R"(DELETE FROM outbox
WHERE status = 'SENT'
AND created_at < NOW() - INTERVAL '7 days';)"),
              HasSubstr("waybill clean"));
  EXPECT_EQ(1, count("outbox"));
  EXPECT_EQ(1, waybill("clean").at("events").at("value"));
  EXPECT_EQ(0, count("outbox"));
}

}  // namespace
}  // namespace waybill
