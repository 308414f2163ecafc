#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace waybill {

// As seen by the client, who connects to the proxy.
enum class Direction { to_server, to_client, both };

// A TcpProxy stands between a client and a server on this machine, and is as bad a network as a test wants it. What is
// asked of it holds when the call has returned, for connections of now and later ones, until pass().
// Thread-safe; all the work is done by one thread of its own.
class TcpProxy {
 public:
  // What connects to port() is connected to `target_port` of 127.0.0.1, whether or not anybody listens there now: a
  // connection that the server refuses is reset.
  explicit TcpProxy(std::uint16_t target_port);
  ~TcpProxy();
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::uint16_t port() const;

  // A good network again. What a black hole has held back goes on its way, as TCP would send it again.
  void pass();

  // Everything arrives, in both directions, but so much later.
  void delay(std::chrono::milliseconds by);

  // Nothing arrives any more, not even the end of a connection, and nobody is told. Senders notice only that their
  // buffers fill up. New connections are accepted; for `both` the server does not hear of them.
  void black_hole(Direction direction = Direction::both);

  // Ends the connections of now, with a RST on both sides. Leaves the rest as it is.
  void reset();

  // Lets `bytes` more through in that direction (`both`: in each), counted from now, for new connections from their
  // beginning. The next byte ends the connection: the receiver gets all that came before it, the sender a RST.
  // So cut_after(0, Direction::to_client) loses the server's next answer, after it has done what was asked of it.
  void cut_after(std::size_t bytes, Direction direction);

  // As if the server was gone: a reset(), and new connections are refused.
  void refuse();

  // How many are open now, as far as can be seen through a black hole;
  std::size_t connections() const;
  // and how many there have been.
  std::size_t accepted() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace waybill
