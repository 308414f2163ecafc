#include "brokers/nats_fixture.h"

#include <cstdlib>
#include <span>
#include <stdexcept>

#include "message/binding.h"

namespace waybill {

NatsReader::NatsReader(const TmpNats& server) {
  require(natsConnection_ConnectTo(&connection_, server.url().c_str()), "connect");
  require(natsConnection_JetStream(&jetstream_, connection_, nullptr), "JetStream");
}

NatsReader::~NatsReader() {
  for (natsSubscription* subscription : subscriptions_) natsSubscription_Destroy(subscription);
  jsCtx_Destroy(jetstream_);
  natsConnection_Destroy(connection_);
}

void NatsReader::require(natsStatus status, const char* what) {
  if (status != NATS_OK) throw std::runtime_error(std::string(what) + ": " + natsStatus_GetText(status));
}

NatsReader::Stored NatsReader::message(const std::string& stream, std::uint64_t sequence) {
  natsMsg* message = nullptr;
  require(js_GetMsg(&message, jetstream_, stream.c_str(), sequence, nullptr, nullptr), "read");
  Stored stored{
      .subject = natsMsg_GetSubject(message),
      .body = std::string(natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message)))};
  const char** names = nullptr;
  int count = 0;
  natsMsgHeader_Keys(message, &names, &count);
  for (int i = 0; i < count; ++i) {
    const char* value = nullptr;
    natsMsgHeader_Get(message, names[i], &value);
    stored.headers[names[i]] = value;
  }
  free(names);
  natsMsg_Destroy(message);
  return stored;
}

std::uint64_t NatsReader::count(const std::string& stream) {
  jsStreamInfo* info = nullptr;
  require(js_GetStreamInfo(&info, jetstream_, stream.c_str(), nullptr, nullptr), "look up");
  const std::uint64_t count = info->State.Msgs;
  jsStreamInfo_Destroy(info);
  return count;
}

std::vector<std::string> NatsReader::bodies(const std::string& stream) {
  jsStreamInfo* info = nullptr;
  require(js_GetStreamInfo(&info, jetstream_, stream.c_str(), nullptr, nullptr), "look up");
  const auto first = info->State.FirstSeq;
  const auto last = info->State.LastSeq;
  jsStreamInfo_Destroy(info);
  std::vector<std::string> bodies;
  for (auto sequence = first; sequence <= last && last > 0; ++sequence)
    bodies.push_back(message(stream, sequence).body);
  return bodies;
}

jsStreamConfig NatsReader::config(const std::string& stream, const char* subject) {
  jsStreamConfig config;
  jsStreamConfig_Init(&config);
  config.Name = names_.emplace_back(stream).c_str();
  subjects_.assign(1, names_.emplace_back(subject).c_str());
  config.Subjects = subjects_.data();
  config.SubjectsLen = 1;
  return config;
}

void NatsReader::add(jsStreamConfig config) {
  require(js_AddStream(nullptr, jetstream_, &config, nullptr, nullptr), "make a stream");
}

void NatsReader::update(jsStreamConfig config) {
  require(js_UpdateStream(nullptr, jetstream_, &config, nullptr, nullptr), "change a stream");
}

void NatsReader::purge(const std::string& stream) {
  require(js_PurgeStream(jetstream_, stream.c_str(), nullptr, nullptr), "empty a stream");
}

void NatsReader::remove(const std::string& stream) {
  require(js_DeleteStream(jetstream_, stream.c_str(), nullptr, nullptr), "delete a stream");
}

void NatsReader::listen(const std::string& subject) {
  subscriptions_.emplace_back();
  require(natsConnection_SubscribeSync(&subscriptions_.back(), connection_, subject.c_str()), "subscribe");
  require(natsConnection_Flush(connection_), "flush");
}

const EventView& NatsTest::event(const std::string& body, const std::string& topic) {
  Body& kept = events_.emplace_back(Body{.text = body, .topic = topic});
  kept.view = {.seq = static_cast<std::int64_t>(events_.size()),
               .id = EventId::make(),
               .tenant = "default",
               .topic = kept.topic,
               .type = kept.topic,
               .payload = kept.text,
               .content_type = "application/json",
               .metadata = "{}",
               .headers = "{}",
               .occurred_at = system_clock().now(),
               .created_at = system_clock().now()};
  return kept.view;
}

NatsOptions NatsTest::options(std::uint16_t port) {
  NatsOptions options;
  options.servers = {{.name = "127.0.0.1", .port = port}};
  options.encode = encoder({}, bindings::nats);
  return options;
}

std::vector<Outcome> NatsTest::collect(Sink& sink, std::size_t count, std::chrono::milliseconds patience) {
  std::vector<Outcome> outcomes;
  const Steady deadline = system_clock().steady() + patience;
  while (outcomes.size() < count && system_clock().steady() < deadline) sink.collect(outcomes, deadline);
  EXPECT_EQ(count, outcomes.size());
  return outcomes;
}

std::vector<Outcome> NatsTest::deliver(Sink& sink, const std::vector<const EventView*>& events,
                                       std::chrono::milliseconds patience) {
  for (const EventView* each : events) submit(sink, *each);
  return collect(sink, events.size(), patience);
}

std::vector<Outcome> NatsTest::deliver_many(Sink& sink, int count) {
  std::vector<const EventView*> events;
  for (int i = 0; i < count; ++i) events.push_back(&event(std::to_string(i)));
  return deliver(sink, events);
}

Log NatsTest::log() {
  return Log([this](LogLevel, std::string_view text, std::span<const LogField> fields) {
    const std::scoped_lock lock(mutex_);
    logged_ += text;
    for (const auto& field : fields) (logged_ += ' ').append(field.name).append("=").append(field.value);
    logged_ += '\n';
  });
}

std::string NatsTest::logged() {
  const std::scoped_lock lock(mutex_);
  return logged_;
}

}  // namespace waybill
