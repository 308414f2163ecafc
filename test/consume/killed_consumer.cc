// What the test kills (broker_suite.cc): a consumer that counts each message once.
//
//   killed_consumer DATABASE PORT QUEUE

#include <iostream>
#include <thread>

#include "waybill/consume.h"

#include "consume/broker_kit.h"

int main(int argc, char** argv) try {
  using namespace waybill;
  const std::vector<std::string> arguments(argv, argv + argc);
  if (argc != 4) return 2;
  const auto db = connect(arguments[1]);
  Consumer consumer(
      {.name = "killed"}, *db,
      make_source({.ports = {static_cast<std::uint16_t>(std::stoi(arguments[2]))},
                   .queue = arguments[3],
                   .prefetch = 5,
                   .ack_wait = std::chrono::seconds(1)},
                  {}),
      [](Connection& line, const Delivery& delivery) {
        line.run("INSERT INTO effect (message) VALUES ($1)", delivery.id);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));  // There is time to be killed.
      },
      stderr_log(LogLevel::info, LogFormat::logfmt));
  consumer.run({});
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
