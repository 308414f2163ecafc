// Orders: Idempotency-Key → outbox → inbox, in one small service.
//
//   orders STORE PORT         STORE as in "sqlite:orders.db" (made if it is not there) or "postgresql://…"
//   curl -d '{"item":"tea","amount":3}' -H 'Idempotency-Key: 7a1f' localhost:PORT/orders
//   curl localhost:PORT/invoices
//
// A client that got no answer asks again under the same key, and is told of the order that it has placed. What was
// placed is told to billing by the outbox, at least once; billing's inbox makes that one invoice. Kill it whenever you
// like.

#include <iostream>

#include <nlohmann/json.hpp>

#include "waybill/enqueue.h"
#include "waybill/idempotency.h"
#include "waybill/inbox.h"
#include "waybill/postgres.h"
#include "waybill/relay.h"
#include "waybill/sqlite.h"

#include "service.h"

namespace {

using nlohmann::json;
using waybill::Connection;

std::unique_ptr<waybill::Store> open_store(const std::string& url) {
  const std::string sqlite = "sqlite:";
  if (url.starts_with(sqlite)) return waybill::sqlite_store({.path = url.substr(sqlite.size())});
  return waybill::postgres_store({.url = url});
}

void make_tables(waybill::Store& store, const std::string& url) {
  store.schema()->migrate();
  const auto db = waybill::connect(url);
  db->script(
      "CREATE TABLE IF NOT EXISTS placed_order (id text PRIMARY KEY, item text NOT NULL, amount bigint NOT NULL);"
      "CREATE TABLE IF NOT EXISTS invoice (order_id text NOT NULL, amount bigint NOT NULL)");
}

// --- The API: POST /orders

// A whole number from 0 on. What is too large for the column would become a negative one.
bool is_amount(const json& amount) {
  return amount.is_number_unsigned() && amount.get<std::int64_t>() >= 0;
}

waybill::StoredAnswer place_order(Connection& db, const std::string& body) {
  const json order = json::parse(body, nullptr, false);
  if (!order.is_object() || !order.value("item", json()).is_string() || !is_amount(order.value("amount", json())))
    return {.status = 400, .body = R"({"detail":"an order has an item and an amount"})"};
  const std::string id = waybill::EventId::make().to_string();
  const std::string item = order["item"];
  const std::int64_t amount = order["amount"];
  db.run("INSERT INTO placed_order (id, item, amount) VALUES ($1, $2, $3)", id, item, amount);
  waybill::enqueue(
      db,
      {.topic = "order.placed", .aggregate = {"order", id}, .payload = json{{"order", id}, {"amount", amount}}.dump()});
  return {.status = 201, .body = json{{"order", id}}.dump()};
}

http::Response answer(Connection& db, const http::Request& request) {
  static const waybill::IdempotencyKeys keys;
  if (request.method == "GET" && request.path == "/invoices") {
    const auto rows = db.run("SELECT order_id, amount FROM invoice ORDER BY order_id");
    json invoices = json::array();
    for (std::size_t row = 0; row < rows.size(); ++row)
      invoices.push_back({{"order", rows.text(row, 0)}, {"amount", rows.integer(row, 1)}});
    return {.body = invoices.dump()};
  }
  if (request.method != "POST" || request.path != "/orders") return {.status = 404};
  const auto key = request.headers.find("idempotency-key");
  if (key == request.headers.end() || key->second.empty())
    return {.status = 400, .body = R"({"detail":"this needs an Idempotency-Key"})"};
  const auto result = keys.once(
      db, {.key = key->second, .fingerprint = waybill::fingerprint({request.method, request.path, request.body})},
      [&](Connection& same) { return place_order(same, request.body); });
  return {.status = result.answer.status, .content_type = result.answer.content_type, .body = result.answer.body};
}

// --- Billing: an invoice for every order, however often it hears of it

waybill::Outcome::Kind bill(Connection& db, const waybill::EventView& event) {
  static const waybill::Inbox inbox("billing");
  try {
    inbox.once(db, event.id.to_string(), [&](Connection& same) {
      const json order = json::parse(event.payload);
      same.run("INSERT INTO invoice (order_id, amount) VALUES ($1, $2)", order.at("order").get<std::string>(),
               order.at("amount").get<std::int64_t>());
    });
    return waybill::Outcome::Kind::delivered;
  } catch (const waybill::Error& error) {
    std::cerr << error.what() << '\n';
    // It comes again. While the database is away no event is to blame; otherwise it is this one, which has so many
    // attempts and is then a dead letter.
    const bool away = error.remedy() == waybill::Remedy::retry || error.remedy() == waybill::Remedy::unknown;
    return away ? waybill::Outcome::Kind::unavailable : waybill::Outcome::Kind::retry;
  }
}

void run(const std::string& url, const std::string& port, const std::stop_source& stop) {
  const auto store = open_store(url);
  make_tables(*store, url);
  const auto billing = waybill::connect(url);
  waybill::Relay relay(*store, {.name = "orders"},
                       waybill::stderr_log(waybill::LogLevel::warning, waybill::LogFormat::logfmt));
  relay.add({.name = "billing", .match = {.topic = {"order.placed"}}},
            waybill::sink_from([&](const waybill::EventView& event) { return bill(*billing, event); }));
  const auto serve = [&] {
    service::serve(url, port, stop.get_token(), [&](Connection& db, const http::Request& request) {
      http::Response response = answer(db, request);
      relay.hint();
      return response;
    });
  };
  service::together(stop, serve, [&] { relay.run(stop.get_token()); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "orders STORE PORT\n";
    return 2;
  }
  return service::run([&](const std::stop_source& stop) { run(argv[1], argv[2], stop); });
}
