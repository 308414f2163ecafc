// What the test kills (killed_suite.cc): a client that asks under an idempotency key, or a consumer with an inbox.
//
//   killed_client ask URL STAGE GATE                    prints "PID began", "PID done ANSWER", "PID again ANSWER"
//   killed_client consume URL DELIVERIES PROGRESS SEED GATE

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include <unistd.h>

#include "waybill/enqueue.h"
#include "waybill/idempotency.h"
#include "waybill/inbox.h"

#include "service/progress.h"

namespace waybill {
namespace {

using namespace std::chrono_literals;

// One write, so that lines of several processes do not mix.
void say(const std::string& line) {
  const std::string text = std::to_string(::getpid()) + ' ' + line + '\n';
  if (::write(STDOUT_FILENO, text.data(), text.size()) < 0) std::abort();
}

// At its stage the client stops, says so, and goes on when the gate is open: here it is killed.
class Stops {
 public:
  Stops(int stage, std::string gate) : stage_(stage), gate_(std::move(gate)) {}
  void at(int stage) const {
    if (stage != stage_) return;
    say("began");
    stand_still();
  }
  void stand_still() const {
    while (!std::filesystem::exists(gate_)) std::this_thread::sleep_for(2ms);
  }

 private:
  int stage_;
  std::string gate_;
};

// A connection that stops before and after COMMIT.
class StoppingConnection final : public Connection {
 public:
  StoppingConnection(std::unique_ptr<Connection> target, const Stops& stops)
      : target_(std::move(target)), stops_(stops) {}

  Dialect dialect() const override { return target_->dialect(); }
  Rows execute(std::string_view sql, std::span<const Parameter> parameters) override {
    return target_->execute(sql, parameters);
  }
  void script(const std::string& sql) override { target_->script(sql); }
  bool in_transaction() const override { return target_->in_transaction(); }
  bool usable() const override { return target_->usable(); }
  void reopen() override { target_->reopen(); }
  void commit() override {
    stops_.at(3);
    target_->commit();
    stops_.at(4);
  }

 private:
  std::unique_ptr<Connection> target_;
  const Stops& stops_;
};

// Asks until it is answered.
int ask(const std::string& url, const Stops& stops) {
  std::mt19937 random(static_cast<unsigned>(::getpid()));
  StoppingConnection db(connect(url), stops);
  const IdempotencyKeys keys;
  const std::string order = "o-" + std::to_string(::getpid());
  const auto work = [&](Connection& line) {
    stops.at(0);
    line.run("INSERT INTO placed (id) VALUES ($1)", order);
    stops.at(1);
    enqueue(line, {.topic = "order.placed", .payload = '"' + order + '"'});
    stops.at(2);
    return StoredAnswer{.status = 201, .body = order};
  };
  while (true) {
    const IdempotentResult result = keys.once(db, {.key = "k", .fingerprint = fingerprint({"POST", "/orders"})}, work);
    if (result.answer.status == 201) {
      say((result.kind == IdempotentResult::Kind::done ? "done " : "again ") + result.answer.body);
      return 0;
    }
    if (result.answer.status != 409) throw std::runtime_error("what is this? " + result.answer.body);
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + random() % 150));
  }
}

// Handles what is delivered; acknowledges ten at a time, so that after a kill some come again. At every tenth it stands
// still in the middle, once, if the gate is shut: whoever kills has the time to.
int consume(const std::string& url, const std::string& deliveries, Progress& progress, unsigned seed,
            const Stops& stops) {
  std::mt19937 random(seed);
  std::vector<std::string> messages;
  std::ifstream file(deliveries);
  for (std::string message; file >> message;) messages.push_back(message);
  const auto db = connect(url);
  const Inbox inbox("billing");
  for (int i = progress.acknowledged; i < std::ssize(messages);) {
    const std::string& message = messages[static_cast<std::size_t>(i)];
    progress.state = Progress::outside;
    try {
      const bool first = inbox.once(*db, message, [&](Connection& line) {
        progress.state = Progress::inside;
        line.run("INSERT INTO effect (message) VALUES ($1)", message);
        if (i % 10 == 5 && progress.stopped.exchange(i) < i) stops.stand_still();
        enqueue(line, {.topic = "billed", .payload = '"' + message + '"'});
        if (random() % 20 == 0) throw Error(Remedy::retry, "the handler's own");
        progress.state = Progress::committing;
      });
      ++(first ? progress.handled : progress.duplicates);
      if (++i % 10 == 0) progress.acknowledged = i;
    } catch (const Error& error) {
      if (error.remedy() != Remedy::retry) throw;
      ++progress.rolled_back;
    }
  }
  progress.state = Progress::outside;
  progress.acknowledged = static_cast<int>(messages.size());
  return 0;
}

}  // namespace
}  // namespace waybill

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  try {
    if (argc == 5 && arguments[1] == "ask")
      return waybill::ask(arguments[2], waybill::Stops(std::stoi(arguments[3]), arguments[4]));
    if (argc == 7 && arguments[1] == "consume")
      return waybill::consume(arguments[2], arguments[3], waybill::map_progress(arguments[4]),
                              static_cast<unsigned>(std::stoul(arguments[5])), waybill::Stops(-1, arguments[6]));
  } catch (const std::exception& error) {
    waybill::say(std::string("failed: ") + error.what());
  }
  return 1;
}
