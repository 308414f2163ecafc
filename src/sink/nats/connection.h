#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nats/nats.h>

#include "waybill/time.h"

#include "message/message.h"
#include "sink/nats/options.h"

namespace waybill::nats {

// A Connection to one server, by libnats. The library runs it in the mode for event loops, and we are the loop: its
// thread for reading and its thread for writing (which waits a millisecond before it writes) do not exist, nothing is
// sent behind our back, and whoever publishes never waits for the socket. It does not reconnect either: what is lost is
// lost, and its owner makes another one.
//
// A message is published with an address of ours for the answer, and the number of that message in it: the same as
// js_PublishMsgAsync does, which keeps a note of every message until its time limit has passed, long after its ack.
//
// Used by one thread, except where it says otherwise.
class Connection {
 public:
  struct Reply {
    std::uint64_t number = 0;
    std::string_view data{};
    bool no_responders = false;  // Nobody listens there.
  };
  // Called on a thread of the library's, until the connection's destructor has returned.
  using Receive = std::function<void(const Reply&)>;

  // Nothing if it could not be made, and then says why. Takes as long as `connect_timeout` and a little.
  static std::unique_ptr<Connection> open(const NatsOptions& options, const NatsServer& server, Receive receive,
                                          std::string& trouble);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Takes a message to be sent by the next pump(). False if it is lost. REQUIRES: not larger than max_payload()
  bool publish(const std::string& subject, std::uint64_t number, const Message& message);
  // Waits for the server or for wake(), at most until `deadline`, and moves bytes both ways. False if it is lost.
  bool pump(Steady deadline);
  // So much is to be sent that nothing more should be published before.
  bool is_full() const;
  // Asks for a sign of life.
  void ping();
  // When the server was last heard.
  Steady heard() const { return heard_; }

  // A request of our own, pumped until it is answered. Nothing if it was not by `deadline`.
  struct Answer {
    std::string data{};
    bool no_responders = false;
  };
  std::optional<Answer> ask(const std::string& subject, std::string_view body, Steady deadline);

  // What the server has refused us since the last time, in its words.
  std::vector<std::string> take_violations();
  // The server is about to stop.
  bool is_lame() const { return lame_; }

  std::size_t max_payload() const;
  // Why it is lost.
  std::string trouble() const;
  const std::string& where() const { return where_; }

  // From any thread: ends the wait of pump().
  void wake();
  // From any thread: the connection is lost from here on, whatever it is doing.
  void interrupt();

 private:
  struct Callbacks;  // What the library calls.

  Connection(const NatsServer& server, Receive receive);
  std::string connect(const NatsOptions& options, const NatsServer& server);
  std::string subscribe(const std::string& inbox_prefix);
  void on_message(natsMsg* message);
  void move_bytes(short events);
  void let_acks_through();
  void close();

  const std::string where_;
  const Receive receive_;
  natsConnection* connection_ = nullptr;
  natsSubscription* subscription_ = nullptr;
  std::string inbox_;  // Ends in a dot.
  int socket_ = -1;    // The library's.
  int line_ = -1;      // The same under a name of our own, which stays ours.
  int wake_ = -1;      // An eventfd.
  bool wants_to_write_ = false;
  Steady heard_{};
  std::uint64_t questions_ = 0;
  std::string name_;  // Scratch, as are:
  std::string value_;
  std::string reply_;

  std::atomic<bool> lame_{false};
  std::mutex mutex_;
  std::condition_variable completed_;
  bool complete_ = true;                 // No more messages come. Guarded by mutex_, as are:
  std::optional<Answer> answer_;         // to the last question
  std::vector<std::string> violations_;  //
};

}  // namespace waybill::nats
