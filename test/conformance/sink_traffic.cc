#include "conformance/sink_traffic.h"

#include <algorithm>
#include <thread>
#include <utility>

namespace waybill {
namespace {

using Kind = Outcome::Kind;
using SteadyClock = std::chrono::steady_clock;

constexpr const char* private_text = "nobody-may-read-this-in-a-log";

// Every one another, and none like a counter.
std::uint64_t ticket_of(std::uint64_t number) {
  return number * 0x9E37'79B9'7F4A'7C15U;
}

}  // namespace

EventView SampleEvent::view() const {
  EventView made;
  made.seq = 7;
  made.id = id;
  made.tenant = "default";
  made.topic = topic;
  made.type = type;
  made.aggregate_type = aggregate_type;
  made.aggregate_id = aggregate_id;
  made.key = key;
  made.payload = payload;
  made.payload_is_json = payload_is_json;
  made.content_type = content_type;
  made.metadata = metadata;
  made.headers = headers;
  made.routing_key = routing_key;
  made.occurred_at = made.created_at = Time(1'700'000'000s);
  return made;
}

void SampleEvent::scribble() {
  for (std::string* text : {&topic, &type, &aggregate_type, &aggregate_id, &key, &payload, &content_type, &metadata,
                            &headers, &routing_key})
    std::fill(text->begin(), text->end(), '!');
  id = {};
}

Traffic::~Traffic() {
  destroy();
}

std::size_t Traffic::room() const {
  const std::size_t most = sink_->in_flight_max();
  return most - std::min(most, under_way_.size());
}

SampleEvent Traffic::usual(std::size_t payload_bytes) {
  SampleEvent event;
  event.aggregate_id = "o-" + std::to_string(++names_);
  event.payload = R"({"order":)" + std::to_string(names_) + R"(,"note":")" + private_text;
  if (event.payload.size() + 2 < payload_bytes) event.payload.append(payload_bytes - 2 - event.payload.size(), 'x');
  event.payload += R"("})";
  return event;
}

void Traffic::submit(SampleEvent event) {
  const auto deadline = SteadyClock::now() + world_.patience();
  while (room() == 0 && !given_up_ && SteadyClock::now() < deadline) collect(1s);
  given_up_ = given_up_ || room() == 0;
  if (given_up_) {
    ADD_FAILURE() << "there never was room for an event";
    return;
  }
  const std::uint64_t ticket = ticket_of(tickets_++);
  sent_[event.id.to_string()] = {.event = event};
  UnderWay& mine = under_way_[ticket];
  mine.event = std::make_unique<SampleEvent>(std::move(event));
  mine.view = std::make_unique<EventView>(mine.event->view());
  const auto begin = SteadyClock::now();
  sink_->submit(*mine.view, ticket);
  EXPECT_LT(SteadyClock::now() - begin, world_.at_once()) << "submit() waits";
}

void Traffic::submit_many(std::size_t count, std::size_t payload_bytes) {
  for (std::size_t i = 0; i < count && !given_up_; ++i) submit(usual(payload_bytes));
}

std::size_t Traffic::collect(std::chrono::milliseconds wait) {
  std::vector<Outcome> outcomes;
  const auto begin = SteadyClock::now();
  sink_->collect(outcomes, begin + wait);
  const auto took = SteadyClock::now() - begin;
  EXPECT_LT(took, wait + world_.at_once()) << "collect() does not return at its deadline";
  EXPECT_TRUE(!outcomes.empty() || under_way_.empty() || took >= wait - 1ms)
      << "collect() returns before its deadline, without an outcome";
  for (const Outcome& outcome : outcomes) look_at(outcome);
  return outcomes.size();
}

void Traffic::look_at(const Outcome& outcome) {
  look_at_reason(outcome);
  const auto found = under_way_.find(outcome.ticket);
  if (found == under_way_.end()) {
    ADD_FAILURE() << "an outcome for a ticket that waits for none: " << outcome.ticket << ", "
                  << to_string(outcome.kind) << " " << outcome.reason;
    return;
  }
  kinds_.push_back(outcome.kind);
  sent_.at(found->second.event->id.to_string()).last = outcome.kind;
  found->second.event->scribble();
  *found->second.view = {};
  under_way_.erase(found);
}

void Traffic::look_at_reason(const Outcome& outcome) const {
  EXPECT_EQ(outcome.kind == Kind::delivered, outcome.reason.empty())
      << to_string(outcome.kind) << " because of '" << outcome.reason << "'";
  EXPECT_EQ(std::string::npos, outcome.reason.find(private_text)) << "a payload in a reason: " << outcome.reason;
  for (const std::string& secret : world_.secrets())
    EXPECT_EQ(std::string::npos, outcome.reason.find(secret)) << "a secret in a reason: " << outcome.reason;
}

void Traffic::collect_all() {
  const auto deadline = SteadyClock::now() + world_.patience();
  while (!under_way_.empty() && !given_up_ && SteadyClock::now() < deadline) collect(1s);
  EXPECT_EQ(0U, under_way_.size()) << "events without an outcome";
  given_up_ = given_up_ || !under_way_.empty();
  collect(10ms);  // Nothing more may come.
}

std::vector<SampleEvent> Traffic::undelivered() const {
  std::vector<SampleEvent> events;
  for (const auto& [id, sent] : sent_)
    if (sent.last != Kind::delivered && sent.last != Kind::rejected) events.push_back(sent.event);
  return events;
}

void Traffic::deliver_the_rest() {
  const auto deadline = SteadyClock::now() + world_.patience();
  for (auto events = undelivered(); !events.empty(); events = undelivered()) {
    if (given_up_ || SteadyClock::now() >= deadline) {
      ADD_FAILURE() << events.size() << " events cannot be delivered though the destination is there";
      return;
    }
    wait_until_reachable();
    for (SampleEvent& event : events) submit(std::move(event));
    collect_all();
  }
}

Outcome Traffic::probe(std::chrono::milliseconds wait) {
  const auto begin = SteadyClock::now();
  Outcome answer = sink_->probe(begin + wait);
  EXPECT_LT(SteadyClock::now() - begin, wait + world_.at_once()) << "probe() does not return at its deadline";
  look_at_reason(answer);
  return answer;
}

void Traffic::wait_until_reachable() {
  const auto deadline = SteadyClock::now() + world_.patience();
  while (SteadyClock::now() < deadline) {
    if (probe(1s).kind == Kind::delivered) return;
    std::this_thread::sleep_for(20ms);
  }
  ADD_FAILURE() << "probe() says that the destination is away, and it is there";
}

void Traffic::close(std::chrono::milliseconds wait) {
  const auto begin = SteadyClock::now();
  sink_->close(begin + wait);
  EXPECT_LT(SteadyClock::now() - begin, wait + world_.at_once()) << "close() does not return at its deadline";
  for (auto& [ticket, mine] : under_way_) mine.event->scribble();
  under_way_.clear();
  tickets_ = 0;
}

void Traffic::destroy() {
  if (!sink_) return;
  const auto begin = SteadyClock::now();
  sink_.reset();
  EXPECT_LT(SteadyClock::now() - begin, world_.at_once()) << "the sink cannot be got rid of";
  under_way_.clear();
}

std::size_t Traffic::count(Kind kind) const {
  return static_cast<std::size_t>(std::count(kinds_.begin(), kinds_.end(), kind));
}

void Traffic::expect_arrivals(bool trouble) {
  if (!world_.keeps_arrivals()) return;
  std::map<std::string, int> times;
  for (const auto& [id, body] : world_.arrivals()) {
    ++times[id];
    const auto sent = sent_.find(id);
    if (sent == sent_.end()) {
      ADD_FAILURE() << "something arrived that was not sent: " << id;
      continue;
    }
    EXPECT_TRUE(sent->second.event.payload == body)
        << sent->second.event.name << ": another body arrived, of " << body.size() << " bytes instead of "
        << sent->second.event.payload.size();
  }
  for (const auto& [id, sent] : sent_) {
    const int arrived = times[id];
    EXPECT_TRUE(sent.last != Kind::delivered || arrived >= 1)
        << sent.event.name << " is delivered and not there: " << id;
    EXPECT_TRUE(sent.last != Kind::rejected || arrived == 0) << sent.event.name << " is rejected and there: " << id;
    EXPECT_TRUE(trouble || arrived <= 1) << sent.event.name << " is there twice: " << id;
  }
}

}  // namespace waybill
