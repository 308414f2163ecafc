#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/enqueue.h"
#include "waybill/error.h"
#include "waybill/postgres.h"

#include "postgres/reader.h"
#include "postgres/sql.h"
#include "support/tmp_postgres.h"

namespace waybill {

using namespace std::chrono_literals;

inline Event make_event(const std::string& name, const std::string& key = "k") {
  Event event;
  event.topic.assign(1, 't');  // Not = "t": g++ 12 then sees an overlap that is none (its bug 105651).
  event.key = key;
  event.payload = '"' + name + '"';
  return event;
}

// Waits for `condition`, looking again and again; false if it did not come true in time.
inline bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience = 10s) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

inline std::vector<std::int64_t> seqs_of(const std::vector<Reader::Seen>& events) {
  std::vector<std::int64_t> seqs;
  for (const auto& event : events) seqs.push_back(event.seq);
  return seqs;
}

// A fresh, migrated database on a server of the test binary's own.
class PostgresTest : public testing::Test {
 protected:
  explicit PostgresTest(int shards = 16, TmpPostgres& the_server = TmpPostgres::shared())
      : server(the_server), url(server.fresh_database()), store(postgres_store({.url = url, .shards = shards})) {
    store->schema()->migrate();
  }

  Sql connect() const { return Sql(url); }
  // In the transaction that the connection is in, or in one of its own.
  static EventId put(Sql& sql, const std::string& name, const std::string& key = "k") {
    return enqueue(sql.raw(), make_event(name, key));
  }
  EventId put(const std::string& name, const std::string& key = "k") { return put(app, name, key); }

  // As if the relay had not been heard of for longer than its lease.
  void silence(const Reader& reader) {
    app("UPDATE waybill.relay SET alive_until = clock_timestamp() - interval '1 s' WHERE id = '" + reader.relay.id +
        "'");
  }

  TmpPostgres& server;
  const std::string url;
  const std::unique_ptr<Store> store;
  Sql app = Sql(url);
};

}  // namespace waybill
