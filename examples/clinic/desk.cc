#include "desk.h"

#include <map>

#include <nlohmann/json.hpp>

#include "queue.h"

namespace clinic {
namespace {

using nlohmann::json;
using waybill::Connection;

using Ask = void (*)(WaitingQueue& queue, const json& body);

std::string patient(const json& body) {
  return body.at("patient");
}
std::string room(const json& body) {
  return body.at("room");
}
// Whole: to read 40.7 as one would make it 40. What is too large for it becomes a negative one.
std::int64_t amount(const json& body) {
  if (!body.at("amount").is_number_integer()) throw Refused("an amount is a whole number");
  return body.at("amount");
}

const std::map<std::string, Ask> asks{
    {"/check-in",
     [](auto& queue, const json& body) {
       queue.check_in(patient(body), body.at("name"), body.value("urgent", false));
     }},
    {"/cashier/call", [](auto& queue, const json&) { queue.call_to_cashier(); }},
    {"/cashier/pay", [](auto& queue, const json& body) { queue.pay(patient(body), amount(body)); }},
    {"/cashier/pending", [](auto& queue, const json& body) { queue.defer_payment(patient(body)); }},
    {"/cashier/absent", [](auto& queue, const json& body) { queue.absent_at_cashier(patient(body)); }},
    {"/consultation/call", [](auto& queue, const json& body) { queue.call(room(body)); }},
    {"/consultation/absent", [](auto& queue, const json& body) { queue.absent(room(body)); }},
    {"/consultation/start", [](auto& queue, const json& body) { queue.start(room(body)); }},
    {"/consultation/finish", [](auto& queue, const json& body) { queue.finish(room(body)); }},
    {"/cancel", [](auto& queue, const json& body) { queue.cancel(patient(body)); }},
    {"/room/activate", [](auto& queue, const json& body) { queue.activate(room(body)); }},
    {"/room/deactivate", [](auto& queue, const json& body) { queue.deactivate(room(body)); }},
};

// One line for each event: its type, then what it says.
std::string what_happened(const WaitingQueue& queue) {
  std::string lines;
  for (const waybill::Event& event : queue.new_events()) lines += event.type + " " + event.payload.value() + "\n";
  return lines;
}

// In one transaction: loads the queue, asks it, writes what has happened to its stream and to the outbox. If another
// desk was faster, all of it again: what is decided is decided on what holds.
std::string decide(Connection& db, Ask ask, const json& body) {
  static const waybill::EventStore events;
  static const waybill::StreamId stream{.type = "waiting-queue", .id = "main"};
  return waybill::with_retries(db, [&](waybill::UnitOfWork& work) {
    auto queue = waybill::load<WaitingQueue>(work.connection(), events, stream).value_or(WaitingQueue(stream));
    ask(queue, body);
    work.track(queue);
    std::string happened = what_happened(queue);
    work.commit();
    return happened;
  });
}

}  // namespace

http::Response at_the_desk(Connection& db, const http::Request& request) {
  const auto ask = asks.find(request.path);
  if (request.method != "POST" || ask == asks.end()) return {.status = 404, .content_type = "text/plain"};
  try {
    return {.content_type = "text/plain",
            .body = decide(db, ask->second, request.body.empty() ? json::object() : json::parse(request.body))};
  } catch (const Refused& refused) {
    return {.status = 409, .content_type = "text/plain", .body = std::string(refused.what()) + "\n"};
  } catch (const json::exception& error) {
    return {.status = 400, .content_type = "text/plain", .body = std::string(error.what()) + "\n"};
  }
}

}  // namespace clinic
