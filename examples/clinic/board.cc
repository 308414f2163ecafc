#include "board.h"

#include "waybill/consume.h"

#include "events.h"

namespace clinic {
namespace {

using waybill::Connection;
using waybill::RecordedEvent;

// The board has not heard of everything: such an event is a dead letter, for a person to look at.
void expect_one(const waybill::Rows& rows, const std::string& patient) {
  if (rows.affected() != 1) throw waybill::Rejection("patient " + patient + " is not on the board");
}

// Where a patient is, as a reader of the page wants it. `since`: the version of the queue, so that lines keep their
// order.
void move(Connection& db, const RecordedEvent& event, const std::string& patient, const std::string& place) {
  expect_one(db.run("UPDATE patient SET place = $1, since = $2 WHERE id = $3", place, event.version, patient), patient);
}

void leave(Connection& db, const std::string& patient) {
  expect_one(db.run("DELETE FROM patient WHERE id = $1", patient), patient);
}

template <typename E, typename Handle>
void on(waybill::EventHandlers<Connection&>& handlers, Handle handle) {
  handlers.on<Json<E>>(
      [handle](const Json<E>& event, const RecordedEvent& recorded, Connection& db) { handle(db, event, recorded); });
}

std::string escaped(const std::string& text) {
  std::string html;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        html += "&amp;";
        break;
      case '<':
        html += "&lt;";
        break;
      case '>':
        html += "&gt;";
        break;
      default:
        html += letter;
    }
  }
  return html;
}

constexpr std::string_view page_head =
    "<!doctype html><meta charset=utf-8><meta http-equiv=refresh content=2><title>Waiting room</title>"
    "<style>body{font:2em sans-serif;margin:2em}td{padding:.2em 1em .2em 0}</style><h1>Waiting room</h1><table>";

}  // namespace

waybill::Projection waiting_room() {
  waybill::EventHandlers<Connection&> handlers;
  on<PatientCheckedIn>(handlers, [](Connection& db, const auto& event, const RecordedEvent& recorded) {
    db.run("INSERT INTO patient (id, name, urgent, place, since) VALUES ($1, $2, $3, 'waiting', $4)", event.patient,
           event.name, event.urgent, recorded.version);
  });
  on<PatientCalledToCashier>(handlers, [](Connection& db, const auto& event, const RecordedEvent& recorded) {
    move(db, recorded, event.patient, "cashier");
  });
  on<PaymentValidated>(handlers, [](Connection& db, const auto& event, const RecordedEvent& recorded) {
    move(db, recorded, event.patient, "paid");
  });
  on<PaymentPending>(handlers, [](Connection& db, const auto& event, const RecordedEvent& recorded) {
    move(db, recorded, event.patient, "waiting");
  });
  on<PatientAbsentAtCashier>(handlers, [](Connection& db, const auto& event, const RecordedEvent& recorded) {
    move(db, recorded, event.patient, "waiting");
  });
  on<PatientCalled>(handlers, [](Connection& db, const auto& event, const RecordedEvent& recorded) {
    move(db, recorded, event.patient, "room " + event.room);
  });
  on<PatientAbsent>(handlers, [](Connection& db, const auto& event, const RecordedEvent& recorded) {
    move(db, recorded, event.patient, "paid");
  });
  on<ConsultationStarted>(handlers, [](Connection& db, const auto& event, const auto&) { leave(db, event.patient); });
  on<PatientCancelled>(handlers, [](Connection& db, const auto& event, const auto&) { leave(db, event.patient); });
  on<RoomActivated>(handlers, [](Connection& db, const auto& event, const auto&) {
    db.run("INSERT INTO room (id) VALUES ($1)", event.room);
  });
  on<RoomDeactivated>(handlers, [](Connection& db, const auto& event, const auto&) {
    db.run("DELETE FROM room WHERE id = $1", event.room);
  });
  handlers.ignore_others();  // A consultation that ends is nothing to those who wait.
  return {.name = "waiting_room",
          .ddl =
              "CREATE TABLE patient (id text PRIMARY KEY, name text NOT NULL, urgent boolean NOT NULL,"
              " place text NOT NULL, since bigint NOT NULL);"
              "CREATE TABLE room (id text PRIMARY KEY)",
          .handlers = std::move(handlers),
          .stream_type = "waiting-queue",
          .tenant = "default"};  // The board's user sees one tenant, and not all of them.
}

http::Response on_the_board(Connection& db, const http::Request& request) {
  const bool html = request.path == "/";
  if (request.method != "GET" || (!html && request.path != "/waiting-room")) return {.status = 404};
  // Who is called comes first, then the lines as they will be called.
  const auto patients = db.run(
      "SELECT place, name FROM waiting_room.patient"
      " ORDER BY place LIKE 'room %' DESC, place = 'cashier' DESC, place, urgent DESC, since");
  const auto rooms = db.run("SELECT count(*) FROM waiting_room.room");
  std::string body(html ? page_head : "");
  for (std::size_t row = 0; row < patients.size(); ++row) {
    const std::string &place = patients.text(row, 0), &name = patients.text(row, 1);
    body += html ? "<tr><td>" + escaped(name) + "<td>" + escaped(place) : place + ": " + name + "\n";
  }
  body += (html ? "</table><p>rooms: " : "rooms: ") + rooms.text(0, 0) + "\n";
  return {.content_type = html ? "text/html; charset=utf-8" : "text/plain; charset=utf-8", .body = body};
}

}  // namespace clinic
