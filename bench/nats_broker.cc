// NATS JetStream, and a publisher by libnats' own connections.
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <fmt/format.h>
#include <nats/nats.h>

#include "await.h"
#include "broker.h"
#include "server.h"
#include "sink/nats/nats_sink.h"
#include "support/tmp_nats.h"

namespace waybill::bench {
namespace {

using namespace std::chrono_literals;

constexpr const char* stream = "BENCH";
constexpr const char* subject = "order.paid";
constexpr std::int64_t patience_ms = 30'000;

void require(natsStatus status, const char* what) {
  if (status != NATS_OK) throw std::runtime_error(fmt::format("NATS: {}: {}", what, natsStatus_GetText(status)));
}

struct Options {
  Options() { require(natsOptions_Create(&options), "options"); }
  ~Options() { natsOptions_Destroy(options); }
  Options(const Options&) = delete;
  Options& operator=(const Options&) = delete;
  natsOptions* options = nullptr;
};

// A connection with JetStream.
class NatsConnection {
 public:
  // `at_once`: every message is written by itself, not a millisecond later with others.
  NatsConnection(const std::string& url, int window, bool at_once) {
    const Options options;
    require(natsOptions_SetURL(options.options, url.c_str()), "url");
    require(natsOptions_SetSendAsap(options.options, at_once), "options");
    require(natsConnection_Connect(&connection_, options.options), "connect");
    jsOptions settings;
    jsOptions_Init(&settings);
    settings.PublishAsync.MaxPending = window;
    settings.PublishAsync.StallWait = patience_ms;
    settings.PublishAsync.ErrHandler = [](jsCtx*, jsPubAckErr*, void* failed) {
      *static_cast<std::atomic<bool>*>(failed) = true;
    };
    settings.PublishAsync.ErrHandlerClosure = &failed_;
    require(natsConnection_JetStream(&jetstream_, connection_, &settings), "JetStream");
  }
  ~NatsConnection() {
    jsCtx_Destroy(jetstream_);
    natsConnection_Destroy(connection_);
  }
  NatsConnection(const NatsConnection&) = delete;
  NatsConnection& operator=(const NatsConnection&) = delete;

  natsConnection* connection() { return connection_; }
  jsCtx* jetstream() { return jetstream_; }
  bool failed() const { return failed_; }

 private:
  std::atomic<bool> failed_ = false;
  natsConnection* connection_ = nullptr;
  jsCtx* jetstream_ = nullptr;
};

class BareNats final : public BarePublisher {
 public:
  BareNats(const std::string& url, int window) : window_(window), connection_(url, window, /*at_once=*/window == 1) {
    for (std::size_t i = 0; i < message_.headers.size(); ++i)
      headers_.emplace_back(message_.headers[i].name, message_.headers[i].value);
    headers_.emplace_back("Nats-Expected-Stream", stream);
  }

  void publish(long events) override {
    for (long n = 0; n < events; ++n) {
      natsMsg* message = dressed(n, nullptr);
      if (window_ == 1) {
        const natsStatus status = js_PublishMsg(nullptr, connection_.jetstream(), message, nullptr, nullptr);
        natsMsg_Destroy(message);
        require(status, "publish");
      } else {
        require(js_PublishMsgAsync(connection_.jetstream(), &message, nullptr), "publish");
      }
    }
    jsPubOptions wait;
    jsPubOptions_Init(&wait);
    wait.MaxWait = patience_ms;
    if (window_ > 1) require(js_PublishAsyncComplete(connection_.jetstream(), &wait), "wait for acks");
    if (connection_.failed()) throw std::runtime_error("NATS has not taken a message");
  }

  std::vector<double> round_trips(int rate, std::chrono::milliseconds duration) override {
    const long events = rate * duration / 1s;
    answered_at_.resize(static_cast<std::size_t>(events));
    std::vector<SteadyTime> sent_at(answered_at_.size());
    const std::string inbox = fmt::format("_INBOX.bench{}.", publisher_);
    natsSubscription* answers = nullptr;
    require(natsConnection_Subscribe(&answers, connection_.connection(), (inbox + "*").c_str(), on_answer, this),
            "subscribe");
    const auto begin = std::chrono::steady_clock::now() + 10ms;
    for (long n = 0; n < events; ++n) {
      std::this_thread::sleep_until(begin + n * (std::chrono::nanoseconds(1s) / rate));
      natsMsg* message = dressed(n, (inbox + std::to_string(n)).c_str());
      sent_at[static_cast<std::size_t>(n)] = std::chrono::steady_clock::now();
      const natsStatus status = natsConnection_PublishMsg(connection_.connection(), message);
      natsMsg_Destroy(message);
      require(status, "publish");
    }
    await("all acks are there", 5ms, [&] { return answers_ == events; });
    natsSubscription_Destroy(answers);
    std::vector<double> took;
    for (std::size_t n = 0; n < sent_at.size(); ++n)
      took.push_back(std::chrono::duration<double, std::milli>(answered_at_[n] - sent_at[n]).count());
    return took;
  }

 private:
  natsMsg* dressed(long n, const char* reply) const {
    natsMsg* message = nullptr;
    require(natsMsg_Create(&message, subject, reply, message_.body.data(), static_cast<int>(message_.body.size())),
            "make");
    for (const auto& [name, value] : headers_) natsMsgHeader_Add(message, name.c_str(), value.c_str());
    natsMsgHeader_Add(message, "Nats-Msg-Id", message_id(publisher_, n).c_str());
    return message;
  }

  static void on_answer(natsConnection*, natsSubscription*, natsMsg* answer, void* closure) {
    auto& self = *static_cast<BareNats*>(closure);
    const auto n = std::strtoul(std::strrchr(natsMsg_GetSubject(answer), '.') + 1, nullptr, 10);
    self.answered_at_.at(n) = std::chrono::steady_clock::now();
    natsMsg_Destroy(answer);
    ++self.answers_;
  }

  const int window_;
  NatsConnection connection_;
  const int publisher_ = next_publisher();
  const Message message_ = sample_message(bindings::nats);
  std::vector<std::pair<std::string, std::string>> headers_;
  std::vector<SteadyTime> answered_at_;
  std::atomic<long> answers_ = 0;
};

class NatsBroker final : public Broker {
 public:
  NatsBroker() { make_stream(); }

  std::string name() const override { return "nats"; }
  std::string destination(std::uint16_t port) const override {
    return fmt::format("type = \"nats\"\nservers = \"nats://127.0.0.1:{}\"\nstream = \"{}\"\n", port, stream);
  }
  std::uint16_t port() const override { return server_.port(); }

  std::unique_ptr<Sink> sink() const override {
    NatsOptions options;
    options.servers = {{.name = "127.0.0.1", .port = server_.port()}};
    options.stream.name = stream;
    options.encode = encoder({}, bindings::nats);
    return nats_sink(std::move(options), {});
  }

  std::unique_ptr<BarePublisher> publisher(int window) const override {
    return std::make_unique<BareNats>(server_.url(), window);
  }

  void empty() override {
    require(js_DeleteStream(connection_.jetstream(), stream, nullptr, nullptr), "delete the stream");
    make_stream();
  }
  long count() override {
    jsStreamInfo* info = nullptr;
    require(js_GetStreamInfo(&info, connection_.jetstream(), stream, nullptr, nullptr), "look at the stream");
    const auto count = static_cast<long>(info->State.Msgs);
    jsStreamInfo_Destroy(info);
    return count;
  }
  double cpu() const override { return cpu_seconds(server_.pid()); }

 private:
  void make_stream() {
    const char* subjects[] = {"order.>"};
    jsStreamConfig config;
    jsStreamConfig_Init(&config);
    config.Name = stream;
    config.Subjects = subjects;
    config.SubjectsLen = 1;
    config.Duplicates = std::chrono::nanoseconds(10min).count();  // As the relay would make it.
    require(js_AddStream(nullptr, connection_.jetstream(), &config, nullptr, nullptr), "make the stream");
  }

  TmpNats server_;
  NatsConnection connection_{server_.url(), 1, true};
};

}  // namespace

std::unique_ptr<Broker> nats_broker() {
  return std::make_unique<NatsBroker>();
}

}  // namespace waybill::bench
