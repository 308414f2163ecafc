#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "waybill/nats_source.h"

#include "broker/nats/connection.h"
#include "broker/nats/options.h"
#include "consume/link_source.h"
#include "consume/nats/pull_consumer.h"

namespace waybill::nats {

// What a server hands out by a pull consumer.
class NatsLink final : public consume::Link {
 public:
  // Logged in, the consumer there, and the first messages asked for, by `deadline`. What is referred to must outlive
  // it.
  NatsLink(const NatsSourceOptions& options, const NatsServers& servers, const net::Host& server, bool may_create,
           const net::Patience& patience, Steady deadline);

  void accept(std::uint64_t number) override;
  void reject(std::uint64_t number, const std::string& reason) override;
  void work(std::vector<Incoming>& come, Steady now) override;
  Steady work_at() const override;
  int fd() const override { return connection_.fd(); }
  bool waits_for_room() const override { return connection_.waits_for_room(); }
  const std::string& where() const override { return connection_.where(); }
  bool keeps_rejected() const override { return keeps_rejected_; }
  void close(Steady deadline) noexcept override;

 private:
  void hear(const Frame& frame);
  void hear_status(const Frame& frame);
  void settle(std::uint64_t number, std::string_view how);
  void ask_for_more(Steady now);
  void show_progress(Steady now);
  void attend(Steady now);
  void give_back();

  const NatsSourceOptions& options_;
  const std::chrono::milliseconds heartbeat_;
  Connection connection_;
  const std::string inbox_;
  const std::string ask_subject_;
  std::chrono::nanoseconds ack_wait_{0};
  bool keeps_rejected_ = false;

  std::map<std::uint64_t, std::string> open_;  // Where each message that is not settled is acknowledged.
  std::uint64_t last_number_ = 0;
  std::size_t asked_for_ = 0;  // So many of what was asked for have not come.
  Steady asked_until_{};       // Then the server has forgotten about it;
  Steady ask_at_{};            // and it is asked no earlier than this.
  Steady progress_at_{};
  Steady pinged_{};
  std::vector<Incoming>* come_ = nullptr;  // Where messages go, during work().
};

}  // namespace waybill::nats
