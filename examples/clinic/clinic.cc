// A clinic's waiting queue, in two processes; its page is README.md.
//
//   clinic desk PORT     where it is decided: check-in, cashier, consultations, rooms
//   clinic board PORT    what the waiting room sees
//
// CLINIC_URL says where the database is, AMQP_URL where the board finds RabbitMQ.

#include <chrono>
#include <cstdlib>
#include <iostream>

#include "waybill/consume.h"
#include "waybill/rabbitmq_source.h"

#include "board.h"
#include "desk.h"
#include "service.h"

namespace {

// The projection is fed by the broker: each message in one transaction with the inbox, and acknowledged after it.
void show(const std::string& url, const std::string& broker, const std::string& port, const std::stop_source& stop) {
  const waybill::Projection room = clinic::waiting_room();
  const auto db = waybill::connect(url);
  waybill::make_tables(*db, room);
  const waybill::Log log = waybill::stderr_log(waybill::LogLevel::warning, waybill::LogFormat::logfmt);
  waybill::Consumer consumer(
      {.name = "waiting-room"}, *db,
      waybill::rabbitmq_source({.url = broker, .queue = "waiting-room", .declare = {.on = true, .exchange = "clinic"}},
                               log),
      [&](waybill::Connection& same, const waybill::Delivery& delivery) {
        waybill::handle(same, room, delivery.event);
      },
      log);
  const auto serve = [&] {
    // The queue is made with the connection. What is published before goes past it: nobody sees the board until then.
    while (consumer.counts().broker_away && !stop.stop_requested())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    service::serve(url, port, stop.get_token(), clinic::on_the_board);
  };
  service::together(stop, serve, [&] { consumer.run(stop.get_token()); });
}

}  // namespace

int main(int argc, char** argv) {
  const std::string side = argc == 3 ? argv[1] : "";
  const char* url = std::getenv("CLINIC_URL");
  const char* broker = std::getenv("AMQP_URL");
  if ((side != "desk" && side != "board") || url == nullptr || (side == "board" && broker == nullptr)) {
    std::cerr << "clinic desk|board PORT; CLINIC_URL says where the database is, for a user with the role "
                 "waybill_service, AMQP_URL where the board finds RabbitMQ\n";
    return 2;
  }
  return service::run([&](const std::stop_source& stop) {
    if (side == "desk") {
      service::serve(url, argv[2], stop.get_token(), clinic::at_the_desk);
    } else {
      show(url, broker, argv[2], stop);
    }
  });
}
