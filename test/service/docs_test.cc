// The examples of README.md and docs/library.md, word for word.

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <libpq-fe.h>

#include "waybill/enqueue.h"
#include "waybill/relay.h"

#include "library_md.h"
#include "service/databases.h"

namespace {

// What the README leaves to the application.
template <typename... Values>
void exec(PGconn* db, const char* sql, const Values&... values) {
  waybill::borrow(db)->run(sql, values...);
}

void readme(PGconn* db, const std::string& queue, const std::string& visit_id, const std::string& visit_json) {
#include "readme.h"
}

}  // namespace

namespace waybill {
namespace {

class DocsTest : public DatabaseTest {
 protected:
  DocsTest() {
    db->script(
        "CREATE TABLE queue (id text PRIMARY KEY, waiting bigint NOT NULL); INSERT INTO queue VALUES ('q-1', 0)");
    db->script("CREATE TABLE room (id text PRIMARY KEY, calls bigint NOT NULL); INSERT INTO room VALUES ('r-1', 0)");
    db->script(sqlite()
                   ? "CREATE TABLE visit (id INTEGER PRIMARY KEY, patient TEXT NOT NULL)"
                   : "CREATE TABLE visit (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, patient text NOT NULL)");
  }
};

INSTANTIATE_TEST_SUITE_P(Databases, DocsTest, every_database, database_name);

TEST_P(DocsTest, TheLibrarysExample) {
  for (const char* patient : {"ann", "bob", "ann"}) clinic::check_in(*db, "q-1", patient);
  EXPECT_EQ("2", value("SELECT waiting FROM queue"));
  EXPECT_EQ(2, count(table("stream_event")));
  EXPECT_EQ(2, count(table("event")));
  EXPECT_EQ("2", value("SELECT count(*) FROM " + table("event") + " WHERE CAST(metadata AS text) LIKE '%reception%'"));

  // An event in its first form.
  const EventStore events;
  const StreamId stream{.type = "waiting-queue", .id = "q-1"};
  events.append(*db, stream, Expected::version(2),
                std::vector{Event{.topic = "patient.arrived", .payload = R"({"patient":"cid"})"}});
  auto queue = load<clinic::WaitingQueue>(*db, events, stream);
  ASSERT_TRUE(queue);
  EXPECT_EQ(3U, queue->size());
  EXPECT_EQ("ann", queue->call_next("r-1"));
  UnitOfWork work(*db);
  work.track(*queue);
  work.commit();
  EXPECT_EQ(2U, load<clinic::WaitingQueue>(*db, events, stream)->size());

  const std::string waiting = std::string("SELECT count(*), min(patient), max(patient) FROM ") +
                              (sqlite() ? "waiting" : "waiting_room.waiting");
  const auto who = [&] {
    const Rows rows = db->run(waiting);
    return rows.text(0, 0) + ' ' + rows.text(0, 1) + ' ' + rows.text(0, 2);
  };
  clinic::rebuild_waiting_room(url);
  EXPECT_EQ("2 bob cid", who());
  std::jthread keeping([&](const std::stop_token& stop) { clinic::keep_waiting_room(url, stop); });
  clinic::check_in(*db, "q-1", "dan");
  for (int i = 0; i < 600 && who() != "3 bob dan"; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ("3 bob dan", who());
}

TEST_P(DocsTest, WhatComesMoreThanOnce) {
  for (const char* message : {"m-1", "m-2", "m-1"}) clinic::on_called(*db, message, "r-1");
  EXPECT_EQ("2", value("SELECT calls FROM room"));
  for (int i = 0; i < 2; ++i) {
    const StoredAnswer answer = clinic::book_visit(*db, "k-1", "ann");
    EXPECT_EQ(201, answer.status);
    EXPECT_EQ(R"({"visit":1})", answer.body);
  }
  EXPECT_EQ(422, clinic::book_visit(*db, "k-1", "bob").status);
  EXPECT_EQ(1, count("visit"));
  EXPECT_EQ(1, count(table("event")));
}

// It is on a PGconn.
class ReadmeTest : public DocsTest {};
INSTANTIATE_TEST_SUITE_P(Databases, ReadmeTest, testing::Values("postgres", "pooled"), database_name);

TEST_P(ReadmeTest, ItsExample) {
  const std::unique_ptr<PGconn, decltype(&PQfinish)> raw(PQconnectdb(url.c_str()), &PQfinish);
  for (int i = 0; i < 2; ++i) readme(raw.get(), "q-1", "v-7", R"({"visit":"v-7"})");
  EXPECT_EQ("2", value("SELECT waiting FROM queue"));
  EXPECT_EQ("patient.checked-in waiting-queue/q-1",
            value("SELECT topic || ' ' || aggregate_type || '/' || aggregate_id FROM waybill.event"));
  EXPECT_EQ(1, count("waybill.event")) << "the second has the dedup_key of the first";
}

}  // namespace
}  // namespace waybill
