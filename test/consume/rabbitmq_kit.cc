#include "brokers/rabbitmq_client.h"
#include "consume/broker_kit.h"
#include "message/binding.h"
#include "sink/rabbitmq/options.h"
#include "support/tmp_rabbitmq.h"

namespace waybill {
namespace {

class RabbitmqKit final : public BrokerKit {
 public:
  std::uint16_t port() const override { return server_.port(); }
  void restart() override {
    server_.stop();
    server_.start();
  }
  void make_queue(const std::string& queue) override {
    RabbitmqClient client(port());
    client.declare_queue(queue + ".dead");
    client.declare_queue(queue, {{"x-queue-type", "quorum"},
                                 {"x-single-active-consumer", "true"},
                                 {"x-dead-letter-exchange", ""},
                                 {"x-dead-letter-routing-key", queue + ".dead"}});
  }
  std::unique_ptr<Sink> sink(const std::string& queue, Envelope envelope) override {
    RabbitmqOptions options;
    options.name = "events";
    options.hosts = {{"127.0.0.1", port()}};
    options.password = "guest";
    options.exchange.emplace("", addresses::exchange);
    options.routing_key.emplace(queue, addresses::routing_key);
    EnvelopeOptions how{.envelope = envelope};
    if (envelope == Envelope::masstransit) how.message_types.emplace_back("urn:message:Test:{type:pascal}");
    options.encode = encoder(std::move(how), bindings::amqp);
    options.connect_timeout = std::chrono::seconds(30);
    return rabbitmq_sink(std::move(options), {});
  }
  void remove(const std::string& queue) override { RabbitmqClient(port()).delete_queue(queue); }
  std::uint64_t unsettled(const std::string& queue) override {
    return static_cast<std::uint64_t>(RabbitmqClient(port()).count(queue));
  }
  std::uint64_t dead(const std::string& queue) override { return unsettled(queue + ".dead"); }
  bool hands_out_again_at_once() const override { return true; }

 private:
  TmpRabbitmq server_;
};

}  // namespace

BrokerKit& broker() {
  static RabbitmqKit made;
  return made;
}

}  // namespace waybill
