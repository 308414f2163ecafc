#include <mutex>
#include <set>
#include <stdexcept>

#include <nats/nats.h>

#include "consume/broker_kit.h"
#include "message/binding.h"
#include "sink/nats/nats_sink.h"
#include "support/tmp_nats.h"

namespace waybill {
namespace {

void require(natsStatus status, const char* what) {
  if (status != NATS_OK) throw std::runtime_error(std::string(what) + ": " + natsStatus_GetText(status));
}

// By the library's ordinary connection: none of our code.
class Operator {
 public:
  explicit Operator(const TmpNats& server) {
    require(natsConnection_ConnectTo(&connection_, server.url().c_str()), "connect");
    require(natsConnection_JetStream(&jetstream_, connection_, nullptr), "JetStream");
  }
  ~Operator() {
    jsCtx_Destroy(jetstream_);
    natsConnection_Destroy(connection_);
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  jsCtx* operator()() const { return jetstream_; }

 private:
  natsConnection* connection_ = nullptr;
  jsCtx* jetstream_ = nullptr;
};

class NatsKit final : public BrokerKit {
 public:
  std::uint16_t port() const override { return server_.port(); }
  void restart() override { server_.restart(); }
  void make_queue(const std::string& queue) override {
    const Operator there(server_);
    const std::string subject = queue + ".>";
    const char* subjects[]{subject.c_str()};
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = queue.c_str();
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    if (made_.insert(queue).second) return require(js_AddStream(nullptr, there(), &config, nullptr, nullptr), "stream");
    // What was removed is the consumer.
    jsConsumerConfig consumer;
    jsConsumerConfig_Init(&consumer);
    consumer.Durable = "test";
    consumer.AckPolicy = js_AckExplicit;
    consumer.AckWait = std::int64_t{30} * 1'000'000'000;
    consumer.MaxAckPending = 20;
    require(js_AddConsumer(nullptr, there(), queue.c_str(), &consumer, nullptr, nullptr), "consumer");
  }
  std::unique_ptr<Sink> sink(const std::string& queue, Envelope envelope) override {
    NatsOptions options;
    options.servers = {{.name = "127.0.0.1", .port = port()}};
    options.subject = Address(queue + ".{type}", addresses::subject);
    EnvelopeOptions how{.envelope = envelope};
    if (envelope == Envelope::masstransit) how.message_types.emplace_back("urn:message:Test:{type:pascal}");
    options.encode = encoder(std::move(how), bindings::nats);
    return nats_sink(std::move(options), {});
  }
  void remove(const std::string& queue) override {
    require(js_DeleteConsumer(Operator(server_)(), queue.c_str(), "test", nullptr, nullptr), "delete");
  }
  std::uint64_t unsettled(const std::string& queue) override {
    const Operator there(server_);
    jsConsumerInfo* info = nullptr;
    require(js_GetConsumerInfo(&info, there(), queue.c_str(), "test", nullptr, nullptr), "look up");
    const auto count = info->NumPending + static_cast<std::uint64_t>(info->NumAckPending);
    jsConsumerInfo_Destroy(info);
    return count;
  }
  // What was terminated stays in the stream, as everything does: it is only settled.
  std::uint64_t dead(const std::string& queue) override { return unsettled(queue) == 0 ? 1 : 0; }
  bool hands_out_again_at_once() const override { return false; }

 private:
  TmpNats server_;
  std::set<std::string> made_;
};

}  // namespace

BrokerKit& broker() {
  static NatsKit made;
  return made;
}

}  // namespace waybill
