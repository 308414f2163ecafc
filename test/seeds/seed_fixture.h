#pragma once

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <stop_token>

#include <nlohmann/json.hpp>

#include "waybill/relay.h"
#include "waybill/sink.h"

#include "postgres/postgres_fixture.h"

namespace waybill {

// Seed 001's MockEventPublisher: counts, remembers, and fails when told to. One thread at a time.
struct Publisher {
  struct Published {
    std::string id, tenant, topic, aggregate_type, aggregate_id, event_type, event_data, dedup_key;
  };

  bool should_fail = false;
  std::string only{};   // If set, nothing but events of this aggregate fails.
  bool answers = true;  // false: it has published, and the answer is lost.
  Outcome::Kind failure = Outcome::Kind::retry;
  std::string error = "publisher failure";
  std::function<void()> while_publishing{};

  std::size_t publish_count = 0;              // attempts
  Published last_event{};                     // of the last attempt
  std::vector<Published> published_events{};  // what was delivered, in order
};

class PublisherSink final : public Sink {
 public:
  explicit PublisherSink(Publisher& publisher) : publisher_(publisher) {}

  void submit(const EventView& event, std::uint64_t ticket) override {
    ++publisher_.publish_count;
    publisher_.last_event = {event.id.to_string(),
                             std::string(event.tenant),
                             std::string(event.topic),
                             std::string(event.aggregate_type),
                             std::string(event.aggregate_id),
                             std::string(event.type),
                             std::string(event.payload),
                             std::string(event.dedup_key)};
    if (publisher_.while_publishing) publisher_.while_publishing();
    if (publisher_.should_fail && (publisher_.only.empty() || publisher_.only == event.aggregate_id)) {
      outcomes_.push_back({ticket, publisher_.failure, publisher_.error});
    } else {
      publisher_.published_events.push_back(publisher_.last_event);
      outcomes_.push_back({ticket, Outcome::Kind::delivered, ""});
    }
  }

  void collect(std::vector<Outcome>& outcomes, Steady /*deadline*/) override {
    if (!publisher_.answers) return;
    outcomes.insert(outcomes.end(), outcomes_.begin(), outcomes_.end());
    outcomes_.clear();
  }

  Outcome probe(Steady /*deadline*/) override {
    const bool away = publisher_.should_fail && publisher_.failure == Outcome::Kind::unavailable;
    return away ? Outcome{0, Outcome::Kind::unavailable, publisher_.error} : Outcome{};
  }

 private:
  Publisher& publisher_;
  std::vector<Outcome> outcomes_;
};

// A database with our tables, found as the seeds' SQL looks for theirs.
class SeedTest : public PostgresTest {
 protected:
  SeedTest() { app("SET search_path = waybill, public"); }

  // What the seeds call a batch: everything that is due now is tried once. Delays are long: what has failed is due
  // again when time_passes().
  void publish_pending(Publisher& publisher, int max_retries = 12) {
    Relay relay(*store, {.name = "processor"});
    relay.add({.name = "events", .retry = {.attempts = max_retries, .first_delay = 24h, .max_delay = 24h}},
              std::make_unique<PublisherSink>(publisher));
    relay.drain(std::stop_token{});
  }
  void time_passes() { app("UPDATE undelivered SET due = clock_timestamp()"); }
  void publish_pending(Publisher& publisher, int times, int max_retries) {
    for (int i = 0; i < times; ++i) {
      time_passes();
      publish_pending(publisher, max_retries);
    }
  }

  // Of an event in a view: columns, with '|' between them.
  std::string shown(const std::string& id, const std::string& columns, const std::string& view) {
    return app("SELECT concat_ws('|', " + columns + ") FROM " + view + " WHERE id = '" + id + "'");
  }
  std::int64_t count(const std::string& from) { return app.number("SELECT count(*) FROM " + from); }

  // As the application or a person would be told; empty if nothing was wrong.
  std::string said_to(const std::string& sql) {
    try {
      app(sql);
      return "";
    } catch (const std::runtime_error& error) {
      return error.what();
    }
  }

  // The built program, with this database; what it printed. Its exit code is in `code`.
  nlohmann::json waybill(const std::string& arguments) {
    const char* binary = std::getenv("WAYBILL_BINARY");
    if (binary == nullptr) throw std::runtime_error("WAYBILL_BINARY is not set");
    const std::string command =
        "cd / && env -i " + std::string(binary) + " " + arguments + " --json --store '" + url + "'";
    FILE* const pipe = ::popen(command.c_str(), "r");
    std::string text;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
    const int status = ::pclose(pipe);
    code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return nlohmann::json::parse(text);
  }
  // The names of what `status --check` finds.
  std::vector<std::string> alerts() {
    std::vector<std::string> names;
    const auto status = waybill("status --check");
    for (const auto& alert : status.at("alerts")) names.push_back(alert.at("alert"));
    EXPECT_EQ(names.empty() ? 0 : 4, code);
    return names;
  }

  // All there is was written and settled eight days ago, in a slot far from the clock.
  void eight_days_pass() {
    app("SET session_replication_role = replica");  // A row that changes its partition would be admitted again.
    app("UPDATE event SET created_at = created_at - interval '8 days', slot = (SELECT (extract(epoch FROM "
        "clock_timestamp())::bigint / slot_seconds + 4) % 8 FROM identity)");
    app("UPDATE cursor SET settled_at = settled_at - interval '8 days'");
    app("UPDATE undelivered u SET slot = e.slot FROM event e WHERE e.shard = u.shard AND e.seq = u.seq");
    app("RESET session_replication_role");
  }

  int code = 0;
};

}  // namespace waybill
