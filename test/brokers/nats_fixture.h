#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nats/nats.h>

#include "waybill/log.h"
#include "waybill/sink.h"

#include "sink/nats/nats_sink.h"
#include "support/tcp_proxy.h"
#include "support/tmp_nats.h"

namespace waybill {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;

// Reads what is in a server, and does there what an operator would: by the library's ordinary connection.
class NatsReader {
 public:
  explicit NatsReader(const TmpNats& server);
  ~NatsReader();
  NatsReader(const NatsReader&) = delete;
  NatsReader& operator=(const NatsReader&) = delete;

  struct Stored {
    std::string subject{};
    std::string body{};
    std::map<std::string, std::string> headers{};
  };
  // Throws if there is no such message, or stream.
  Stored message(const std::string& stream, std::uint64_t sequence);
  std::uint64_t count(const std::string& stream);
  std::vector<std::string> bodies(const std::string& stream);

  jsStreamConfig config(const std::string& stream, const char* subject);
  void add(jsStreamConfig config);
  void update(jsStreamConfig config);
  void purge(const std::string& stream);
  void remove(const std::string& stream);
  // Somebody who listens but is no stream.
  void listen(const std::string& subject);

 private:
  void require(natsStatus status, const char* what);

  natsConnection* connection_ = nullptr;
  jsCtx* jetstream_ = nullptr;
  std::vector<const char*> subjects_;
  std::deque<std::string> names_;
  std::vector<natsSubscription*> subscriptions_;
};

// A sink, and events for it.
class NatsTest : public testing::Test {
 protected:
  // Tickets of what was submitted begin with 1.
  const EventView& event(const std::string& body, const std::string& topic = "orders.paid");
  static NatsOptions options(std::uint16_t port);
  // Everything that is submitted before the outcomes are asked for.
  std::vector<Outcome> deliver(Sink& sink, const std::vector<const EventView*>& events,
                               std::chrono::milliseconds patience = 30s);
  Outcome deliver(Sink& sink, const EventView& event) { return deliver(sink, std::vector{&event}).at(0); }
  std::vector<Outcome> deliver_many(Sink& sink, int count);
  void submit(Sink& sink, const EventView& event) { sink.submit(event, ++tickets_); }
  std::vector<Outcome> collect(Sink& sink, std::size_t count, std::chrono::milliseconds patience = 30s);

  Log log();
  std::string logged();

 private:
  struct Body {
    std::string text{};
    std::string topic{};
    EventView view{};
  };
  std::deque<Body> events_;
  std::uint64_t tickets_ = 0;
  std::mutex mutex_;
  std::string logged_;  // guarded by mutex_
};

inline void PrintTo(const Outcome& outcome, std::ostream* out) {
  *out << to_string(outcome.kind) << ": " << outcome.reason;
}
inline void PrintTo(const Finding& finding, std::ostream* out) {
  *out << static_cast<int>(finding.level) << " " << finding.what << ": " << finding.text;
}

MATCHER_P(Is, kind, "") {
  return arg.kind == kind && arg.reason.empty() == (arg.kind == Kind::delivered);
}

}  // namespace waybill
