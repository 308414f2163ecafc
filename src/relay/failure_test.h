#pragma once

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "waybill/relay.h"
#include "waybill/testing.h"

namespace waybill {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;

// A relay, stepped by hand, and a destination that answers as it is told. Events are named by their payload.
class FailureTest : public testing::Test {
 protected:
  void start(DestinationOptions destination = {}) {
    destination.name = "out";
    relay_.reset();
    relay_ = std::make_unique<Relay>(*store_, RelayOptions{.name = "r"}, Log{}, clock_);
    relay_->add(destination, std::make_unique<ScriptedSink>(script_));
  }
  // Ends a relay that is stepped by hand: it settles nothing and gives nothing back. And waits until its lease is over.
  void kill() {
    relay_.reset();
    clock_.advance(10s);
  }

  void enqueue(const std::string& key, const std::string& name) {
    Event event = this->event(key, name);
    enqueue(event);
  }
  static Event event(const std::string& key, const std::string& name) {
    Event event;
    event.topic.assign(1, 't');  // Not = "t": g++ 12 then sees an overlap that is none (its bug 105651).
    event.key = key;
    event.payload = name;
    return event;
  }
  void enqueue(const Event& event) {
    const auto writer = store_->writer();
    writer->enqueue(std::span(&event, 1));
    writer->commit();
    if (relay_) relay_->hint();
  }

  void go(std::chrono::milliseconds time = 500ms) {
    const Steady end = clock_.steady() + time;
    while (clock_.steady() < end) {
      for (int i = 0; i < 20 && relay_->step() > 0; ++i) {
      }
      clock_.advance(10ms);
    }
  }

  // Starts a relay again and again, until one survives for a while. What waits to be tried again is due at once.
  int kills_until_all_ended() {
    for (int kills = 0; kills < 30; ++kills) {
      script_.poisoned = false;
      start({.retry = {.first_delay = 1ms, .max_delay = 1ms}});
      for (int i = 0; i < 3'000 && !script_.poisoned; ++i) {
        relay_->step();
        clock_.advance(10ms);
      }
      if (!script_.poisoned) return kills;
      kill();
    }
    return 30;
  }

  std::vector<std::string> standing(Standing standing) {
    std::vector<std::string> names;
    for (const auto& view : store_->inspector()->undelivered({.standings = {standing}, .limit = 1'000}).events)
      names.insert(names.begin(), std::string(view.event.payload));
    return names;
  }

  std::int64_t redrive(Standing which = Standing::dead) {
    return store_->operate()->redrive({.id = EventId::make()}, {.destination = "out", .standings = {which}}, 1'000);
  }

  ManualClock clock_;
  std::unique_ptr<Store> store_ = memory_store({.shards = 2}, clock_);
  ScriptedSink::Script script_;
  std::unique_ptr<Relay> relay_;
};

}  // namespace waybill
