#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "waybill/sink.h"

// What every sink must do (waybill/sink.h), with a destination that is there, slow, away, or silent. A sink passes it
// by instantiating the suite, with a SinkUnderTest of its own:
//   INSTANTIATE_TEST_SUITE_P(File, SinkSuite, every_sink_check("file", [] { return std::make_unique<…>(); }),
//                            sink_check_name);
namespace waybill {

using namespace std::chrono_literals;

// What the destination is like.
enum class Condition {
  there,
  slow,     // It answers, but some ten milliseconds later.
  away,     // It cannot be reached, and that is quickly found out; what was connected is disconnected.
  hanging,  // It takes no notice and does not answer: a black hole.
};

// A destination of a test's own that can be read and broken, empty at first, and sinks for it.
class SinkUnderTest {
 public:
  SinkUnderTest() = default;
  virtual ~SinkUnderTest() = default;
  SinkUnderTest(const SinkUnderTest&) = delete;
  SinkUnderTest& operator=(const SinkUnderTest&) = delete;

  // A new sink. Its timeouts are a few seconds at most, so that it answers within patience() whatever happens.
  virtual std::unique_ptr<Sink> make() = 0;

  struct Arrival {
    std::string id{};    // The event's.
    std::string body{};  // The payload, byte for byte.
  };
  // All that has arrived so far, duplicates too: what the destination has now, not what it will have soon.
  // REQUIRES: the condition is `there`.
  virtual std::vector<Arrival> arrivals() = 0;
  // False: what arrives cannot be read (null).
  virtual bool keeps_arrivals() const { return true; }

  // It can always be there.
  virtual bool can_be(Condition condition) const = 0;
  virtual void become(Condition condition) = 0;

  // Breaks all connections once, in the middle of whatever goes on; nothing where there are none.
  virtual void interrupt() {}

  // The names of those of unusual_events() that it refuses (`rejected`).
  virtual std::set<std::string> refused() const { return {}; }
  // What no reason may contain: passwords.
  virtual std::vector<std::string> secrets() const { return {}; }
  // False: probe() is the default one, which finds nothing out.
  virtual bool probes() const { return true; }
  // How long an answer can take at the very most, on a busy machine, its own timeouts included.
  virtual std::chrono::milliseconds patience() const { return 60s; }
  // How long that which must not take any time can take there.
  virtual std::chrono::milliseconds at_once() const { return 2s; }
};

// An event in memory of its own, which can be taken away from the sink.
struct SampleEvent {
  std::string name = "usual";
  EventId id = EventId::make();
  std::string topic = "orders";
  std::string type = "order.placed";
  std::string aggregate_type = "order";
  std::string aggregate_id = "o-7";
  std::string key{};
  std::string payload{};
  bool payload_is_json = true;
  std::string content_type = "application/json";
  std::string metadata = "{}";
  std::string headers = "{}";
  std::string routing_key{};

  EventView view() const;
  // Nobody may look at it any more.
  void scribble();
};

// Events that sinks stumble over, each with a name.
std::vector<SampleEvent> unusual_events();

// One thing that a sink must do.
struct SinkCheck {
  std::string name{};
  Condition needs = Condition::there;
  std::function<void(SinkUnderTest&)> run{};
};

const std::vector<SinkCheck>& sink_checks();

struct SinkMaker {
  std::string name{};
  std::function<std::unique_ptr<SinkUnderTest>()> make{};
};

inline void PrintTo(const SinkMaker& maker, std::ostream* out) {
  *out << maker.name;
}
inline void PrintTo(const SinkCheck& check, std::ostream* out) {
  *out << check.name;
}

class SinkSuite : public testing::TestWithParam<std::tuple<SinkMaker, SinkCheck>> {};

inline auto every_sink_check(std::string name, std::function<std::unique_ptr<SinkUnderTest>()> make) {
  return testing::Combine(testing::Values(SinkMaker{std::move(name), std::move(make)}),
                          testing::ValuesIn(sink_checks()));
}

inline std::string sink_check_name(const testing::TestParamInfo<SinkSuite::ParamType>& info) {
  return std::get<0>(info.param).name + "_" + std::get<1>(info.param).name;
}

}  // namespace waybill
