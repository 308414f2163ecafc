#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "waybill/time.h"

#include "broker/nats/frames.h"
#include "broker/nats/login.h"
#include "broker/nats/options.h"
#include "message/message.h"
#include "net/output.h"
#include "net/transport.h"

namespace waybill::nats {

// A Connection is logged in at one server, and subscribed to the answers to what it sends. Nothing here waits but
// where a deadline is given. What ends it is an Error that names the server; it does not connect again. One thread.
//
// A message is published with an address of ours for the answer, and the number of that message in it.
class Connection {
 public:
  struct Reply {
    std::uint64_t number = 0;
    std::string_view data{};
    bool no_responders = false;  // Nobody listens there.
  };
  using Receive = std::function<void(const Reply&)>;
  using Listen = std::function<void(const Frame&)>;

  // By `deadline`. `patience` must outlive it.
  Connection(const NatsServers& options, const net::Host& server, const net::Patience& patience, Steady deadline);

  // What comes to a subject of ours, ending in `word`, is given to `listen` by move(). Returns the subject. Once.
  std::string subscribe(std::string_view word, Listen listen);
  // No more of it, but for what is on its way.
  void unsubscribe();
  // Takes a request without headers, or an answer, to be sent by move(). `reply_to` may be empty.
  void publish(std::string_view subject, std::string_view reply_to, std::string_view body);
  // Takes a message to be sent by move(). REQUIRES: not larger than max_payload()
  void publish(std::string_view subject, std::uint64_t number, const Message& message);
  // So much is to be sent that nothing more should be published before.
  bool is_full() const;
  // Sends and receives what is possible now. What came before an Error was received. True if there is more to receive,
  // which a wait for fd() might not tell of.
  bool move(const Receive& receive);
  // Asks for a sign of life.
  void ping();
  // Sends everything, and waits until the server has heard it. Throws Error if it has not by `deadline`.
  void finish(Steady deadline);

  // A request of our own. Nothing if it was not answered by `deadline`, or was refused.
  struct Answer {
    std::string data{};
    bool no_responders = false;
  };
  std::optional<Answer> ask(const std::string& subject, std::string_view body, Steady deadline);

  // What the server has refused us since the last time, in its words.
  std::vector<std::string> take_violations();
  // When the server was last heard.
  Steady heard() const { return heard_; }
  // The server is about to stop.
  bool is_lame() const { return info_.lame; }
  std::size_t max_payload() const { return info_.max_payload; }
  // By the server's version.
  bool is_at_least(int major, int minor) const;
  // How many bytes were ever to be sent, and how many of those the system has taken.
  std::uint64_t appended() const { return output_.appended(); }
  std::uint64_t written() const { return output_.written(); }

  // As Transport's.
  std::optional<Time> trusted_until() const { return transport_.trusted_until(); }
  // What to wait for until the next move().
  int fd() const { return transport_.fd(); }
  bool waits_for_room() const { return output_.unwritten() > 0 && transport_.waits_for_room(); }
  const std::string& where() const { return where_; }

 private:
  void log_in(const NatsServers& options, const net::Host& server, Steady deadline);
  // Until that comes; violations are errors.
  void await(Frame::Kind kind, Steady deadline);
  void append_ping();
  void flush(const Receive& receive);
  bool receive_some(const Receive& receive);
  bool read();
  void heed(const Frame& frame, const Receive& receive);
  void heed_message(const Frame& frame, const Receive& receive);
  void heed_error(std::string_view text);

  const std::string where_;
  const net::Patience& patience_;
  net::Transport transport_;
  net::Output output_;
  FrameReader reader_;
  ServerInfo info_;
  std::string inbox_;  // Ends in a dot.
  bool logged_in_ = false;
  std::uint64_t unanswered_pings_ = 0;
  Steady heard_{};
  std::uint64_t questions_ = 0;
  std::optional<Answer> answer_;         // to the last question
  std::vector<std::string> violations_;  // not taken yet
  Listen listen_;
};

// A connection to the first server that lets us in, beginning with number `first`: each is given `connect_timeout`, and
// all together until `deadline`. Throws Error: what every one of them says.
std::unique_ptr<Connection> connect_to_any(const NatsServers& options, std::size_t first, const net::Patience& patience,
                                           Steady deadline);

}  // namespace waybill::nats
