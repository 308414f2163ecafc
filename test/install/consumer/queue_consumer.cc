// queue_consumer FILE: links what it takes to consume. Without brokers it has nothing to handle.

#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include <waybill/consume.h>
#include <waybill/nats_source.h>
#include <waybill/rabbitmq_source.h>
#include <waybill/sqlite.h>
#include <waybill/store.h>

namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

bool broker_is_away(waybill::Connection& db, std::unique_ptr<waybill::MessageSource> source) {
  waybill::Consumer consumer({.name = "reader"}, db, std::move(source),
                             [](waybill::Connection&, const waybill::Delivery&) {}, {});
  const auto step = consumer.step(waybill::Steady::clock::now() + std::chrono::milliseconds(500));
  return step == waybill::Consumer::Step::idle && consumer.counts().broker_away;
}

}  // namespace

int main(int argc, char** argv) {
  expect(argc == 2, "name a file");
  waybill::sqlite_store({.path = argv[1]})->schema()->migrate();
  const auto db = waybill::connect(std::string("sqlite:") + argv[1]);
  // Nobody listens at port 1.
  expect(broker_is_away(*db, waybill::rabbitmq_source({.url = "amqp://reader@127.0.0.1:1", .queue = "q"}, {})),
         "RabbitMQ");
  expect(
      broker_is_away(*db, waybill::nats_source({.servers = {"nats://127.0.0.1:1"}, .stream = "S", .durable = "d"}, {})),
      "NATS");
  try {
    waybill::rabbitmq_source({.url = "ftp://broker"}, {});
  } catch (const waybill::Error& error) {  // What the library throws is caught by its type.
    expect(error.remedy() == waybill::Remedy::fix_config, "the remedy");
    std::puts("no broker");
  }
}
