#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "waybill/consume.h"

#include "base/waker.h"
#include "net/transport.h"

namespace waybill::consume {

// A connection to a broker that brings messages: ready when it is made, over when anything throws. One thread.
class Link {
 public:
  virtual ~Link() = default;

  // Are done with a message, by its number; what there is to say about it is sent by work().
  virtual void accept(std::uint64_t number) = 0;
  virtual void reject(std::uint64_t number, const std::string& reason) = 0;
  // Sends and receives what is possible now, and appends what has come; its ticket is a number of the link's own.
  virtual void work(std::vector<Incoming>& come, Steady now) = 0;
  // When work() has something to do though nothing comes.
  virtual Steady work_at() const = 0;
  virtual int fd() const = 0;
  virtual bool waits_for_room() const = 0;
  // "host:port"
  virtual const std::string& where() const = 0;
  virtual bool keeps_rejected() const = 0;
  // Sends what is not sent, gives back what is not settled, and says goodbye. Throws nothing.
  virtual void close(Steady deadline) noexcept = 0;
};

struct LinkOptions {
  std::string name{};     // For people.
  std::size_t hosts = 1;  // Tried in turn.
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds reconnect_max{30'000};
};

// Throws Error: fix_config if the broker refuses us for what a person must mend.
using OpenLink = std::function<std::unique_ptr<Link>(std::size_t host, const net::Patience& patience, Steady deadline)>;

// A source over links, one at a time. A thread of its own has the link, so that a broker hears of us while a message is
// handled.
class LinkSource final : public MessageSource {
 public:
  LinkSource(LinkOptions options, OpenLink open, Log log);
  ~LinkSource() override;

  Received receive(Steady deadline) override;
  void accept(std::uint64_t ticket) override;
  void reject(std::uint64_t ticket, const std::string& reason) override;
  bool keeps_rejected() const override { return keeps_rejected_; }
  bool is_away() const override { return away_; }
  void wake() noexcept override;
  void close(Steady deadline) override;

 private:
  struct Settled {
    std::uint64_t ticket = 0;
    std::optional<std::string> rejected{};  // Why; none: accepted.
  };

  void settle(Settled settled);
  void start();
  void run();
  void say_goodbye();
  void connect();
  void linked();
  void refuse(const std::string& troubles);
  void turn();
  void send_settled();
  void hand_over();
  void lost(const std::string& reason);
  void pause();

  const LinkOptions options_;
  const OpenLink open_;
  const Log log_;

  // The thread's own.
  std::unique_ptr<Link> link_;
  std::uint64_t round_ = 0;  // How many links there were: the upper bits of a ticket.
  Steady linked_{};          // since when
  std::size_t host_ = 0;
  int failures_ = 0;  // in a row
  bool is_refused_ = false;
  std::vector<Incoming> come_;

  // Everybody's.
  Waker waker_;  // the thread
  std::atomic<bool> stopping_{false};
  std::atomic<bool> away_{true};
  std::atomic<bool> keeps_rejected_{false};
  std::atomic<bool> let_in_{false};  // once
  const net::Patience patience_;
  std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  std::vector<Settled> settled_;
  Received received_;
  std::string refused_;  // Why a person is needed.
  bool woken_ = false;
  Steady close_by_{};

  std::thread thread_;  // Last: it uses all the others.
};

}  // namespace waybill::consume
