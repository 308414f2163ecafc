#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "waybill/consume.h"

namespace waybill {

// A source that brings what it is told to, and remembers what it was told.
class ScriptedSource final : public MessageSource {
 public:
  // What everybody may look at and set, also after the source has gone into a consumer.
  struct Script {
    std::vector<Incoming> brings{};  // Next time.
    bool lost = false;               // Next time.
    bool keeps_rejected = true;
    std::vector<std::string> accepted{};  // ids, in order
    std::vector<std::string> rejected{};  // "id: reason"
    std::function<void()> on_accept = [] {};
    bool closed = false;
    std::vector<std::string> ids{};  // by ticket

    void bring(Incoming incoming) {
      ids.push_back(incoming.id);
      incoming.ticket = ids.size() - 1;
      brings.push_back(std::move(incoming));
    }
  };

  explicit ScriptedSource(Script& script) : script_(script) {}

  Received receive(Steady /*deadline*/) override {
    return {.lost = std::exchange(script_.lost, false), .messages = std::exchange(script_.brings, {})};
  }
  void accept(std::uint64_t ticket) override {
    script_.accepted.push_back(script_.ids.at(ticket));
    script_.on_accept();
  }
  void reject(std::uint64_t ticket, const std::string& reason) override {
    script_.rejected.push_back(script_.ids.at(ticket) + ": " + reason);
  }
  bool keeps_rejected() const override { return script_.keeps_rejected; }
  bool is_away() const override { return false; }
  void wake() noexcept override {}
  void close(Steady /*deadline*/) override { script_.closed = true; }

 private:
  Script& script_;
};

}  // namespace waybill
