// A clinic's waiting queue, in two processes; its page is README.md.
//
//   clinic desk PORT     where it is decided: check-in, cashier, consultations, rooms
//   clinic board PORT    what the waiting room sees
//
// DATABASE_URL says where the database is, AMQP_URL where the board finds RabbitMQ.

#include <csignal>
#include <cstdlib>
#include <iostream>

#include "waybill/consume.h"
#include "waybill/rabbitmq_source.h"

#include "board.h"
#include "desk.h"

namespace {

std::stop_source stopping;

void stop_on_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  std::thread([ends] {
    int number = 0;
    sigwait(&ends, &number);
    stopping.request_stop();
  }).detach();
}

using Answer = http::Response (*)(waybill::Connection&, const http::Request&);

void serve(const std::string& url, const char* port, Answer answer) {
  http::serve(static_cast<std::uint16_t>(std::stoi(port)), stopping.get_token(), [&](const http::Request& request) {
    try {
      return answer(*waybill::connect(url), request);  // A service has a pool of them.
    } catch (const waybill::Error& error) {
      std::cerr << error.what() << '\n';
      return http::Response{.status = 503, .content_type = "text/plain", .body = "it did not work; try again\n"};
    }
  });
}

// What goes wrong, on the standard error output.
void complain(waybill::LogLevel level, std::string_view text, std::span<const waybill::LogField>) {
  if (level >= waybill::LogLevel::warning) std::cerr << text << '\n';
}

// The projection is fed by the broker: each message in one transaction with the inbox, and acknowledged after it.
void show(const std::string& url, const std::string& broker, const char* port) {
  const waybill::Projection room = clinic::waiting_room();
  const auto db = waybill::connect(url);
  waybill::make_tables(*db, room);
  const waybill::Log log(complain);
  waybill::Consumer consumer(
      {.name = "waiting-room"}, *db,
      waybill::rabbitmq_source({.url = broker, .queue = "waiting-room", .declare = {.on = true, .exchange = "clinic"}},
                               log),
      [&](waybill::Connection& same, const waybill::Delivery& delivery) {
        waybill::handle(same, room, delivery.event);
      },
      log);
  const std::jthread following([&] { consumer.run(stopping.get_token()); });
  serve(url, port, clinic::on_the_board);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string side = argc == 3 ? argv[1] : "";
  const char* url = std::getenv("DATABASE_URL");
  const char* broker = std::getenv("AMQP_URL");
  if ((side != "desk" && side != "board") || url == nullptr || broker == nullptr) {
    std::cerr << "clinic desk|board PORT; DATABASE_URL says where the database is, AMQP_URL where RabbitMQ is\n";
    return 2;
  }
  stop_on_signals();
  try {
    if (side == "desk") {
      serve(url, argv[2], clinic::at_the_desk);
    } else {
      show(url, broker, argv[2]);
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
