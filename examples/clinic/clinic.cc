// A clinic's waiting queue, in two processes; its page is README.md.
//
//   clinic desk PORT     where it is decided: check-in, cashier, consultations, rooms
//   clinic board PORT    what the waiting room sees
//
// DATABASE_URL says where the database is.

#include <csignal>
#include <cstdlib>
#include <iostream>

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

void show(const std::string& url, const char* port) {
  waybill::Projector projector(clinic::waiting_room(), [&] { return waybill::connect(url); });
  projector.catch_up();
  const std::jthread following([&] { projector.run(stopping.get_token()); });
  serve(url, port, clinic::on_the_board);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string side = argc == 3 ? argv[1] : "";
  const char* url = std::getenv("DATABASE_URL");
  if ((side != "desk" && side != "board") || url == nullptr) {
    std::cerr << "clinic desk|board PORT, and DATABASE_URL says where the database is\n";
    return 2;
  }
  stop_on_signals();
  try {
    if (side == "desk") {
      serve(url, argv[2], clinic::at_the_desk);
    } else {
      show(url, argv[2]);
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
