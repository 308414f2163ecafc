#include "support/tcp_proxy.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace waybill {
namespace {

using std::chrono::milliseconds;
using SteadyClock = std::chrono::steady_clock;
using Moment = SteadyClock::time_point;

// What is read ahead of a receiver who does not take it.
constexpr std::size_t queued_bytes_max = std::size_t{4} << 20;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error("TcpProxy: " + what + ": " + std::strerror(errno));
}

class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  ~Fd() { close(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  // Sockets: what was sent still arrives.
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // With a RST.
  void abort() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    if (fd_ >= 0) ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close();
  }

 private:
  int fd_;
};

Fd tcp_socket() {
  Fd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) fail("cannot make a socket");
  return fd;
}

void send_at_once(const Fd& fd) {
  const int yes = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

sockaddr* generic(sockaddr_in& address) {
  return static_cast<sockaddr*>(static_cast<void*>(&address));
}

// Several of them can be bound to one port.
Fd bound_socket(std::uint16_t port) {
  Fd fd = tcp_socket();
  const int yes = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes);
  sockaddr_in address = loopback(port);
  if (::bind(fd.get(), generic(address), sizeof address) != 0) fail("cannot bind");
  return fd;
}

std::uint16_t port_of(const Fd& fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd.get(), generic(address), &size) != 0) fail("has no port");
  return ntohs(address.sin_port);
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

struct Faults {
  milliseconds delay{0};
  bool hold_to_server = false;
  bool hold_to_client = false;
  std::optional<std::size_t> cut_to_server{};
  std::optional<std::size_t> cut_to_client{};
};

enum class Progress { going, failed_to_read, failed_to_write, cut };

// One direction of a connection: what was read on one side and waits to be written on the other.
class Pipe {
 public:
  void let_through(std::optional<std::size_t> bytes) { left_ = bytes; }

  bool wants_to_read() const { return !ended_ && queued_ < queued_bytes_max; }
  bool done() const { return shut_; }

  // When it has something to write; none: not until it has read more.
  std::optional<Moment> due() const { return chunks_.empty() ? std::nullopt : std::optional(chunks_.front().due); }

  void hurry() {
    for (Chunk& chunk : chunks_) chunk.due = {};
  }

  Progress read(const Fd& from, milliseconds delay) {
    std::array<char, 65'536> buffer;  // NOLINT: as much of it as is read is written first
    const ssize_t count = ::recv(from.get(), buffer.data(), buffer.size(), 0);
    if (count < 0) return would_block() ? Progress::going : Progress::failed_to_read;
    const Moment due = SteadyClock::now() + delay;
    const auto size = static_cast<std::size_t>(count);
    const std::size_t kept = std::min(size, left_.value_or(size));
    if (kept > 0) {
      chunks_.push_back({.due = due, .bytes = std::string(buffer.data(), kept)});
      queued_ += kept;
      if (left_) *left_ -= kept;
    }
    ended_ = count == 0 || kept < size;
    if (ended_) chunks_.push_back({.due = due, .end = count == 0 ? End::shut : End::cut});
    return Progress::going;
  }

  Progress write(const Fd& to) {
    while (!chunks_.empty() && chunks_.front().due <= SteadyClock::now()) {
      const Chunk& chunk = chunks_.front();
      if (chunk.end == End::cut) return Progress::cut;
      if (chunk.end == End::shut) {
        ::shutdown(to.get(), SHUT_WR);
        shut_ = true;
      } else {
        const ssize_t count =
            ::send(to.get(), chunk.bytes.data() + written_, chunk.bytes.size() - written_, MSG_NOSIGNAL);
        if (count < 0) return would_block() ? Progress::going : Progress::failed_to_write;
        written_ += static_cast<std::size_t>(count);
        queued_ -= static_cast<std::size_t>(count);
        if (written_ < chunk.bytes.size()) return Progress::going;
        written_ = 0;
      }
      chunks_.pop_front();
    }
    return Progress::going;
  }

 private:
  enum class End { none, shut, cut };
  struct Chunk {
    Moment due{};
    std::string bytes{};
    End end = End::none;
  };

  std::deque<Chunk> chunks_;
  std::size_t written_ = 0;          // of the first chunk
  std::size_t queued_ = 0;           // bytes in all chunks
  std::optional<std::size_t> left_;  // until the cut; none: no cut
  bool ended_ = false;               // Nothing more is read;
  bool shut_ = false;                // and the receiver was told so.
};

// A client's connection and the one to the server that belongs to it.
class Link {
 public:
  Link(Fd client, std::uint16_t target_port, const Faults& faults)
      : client_(std::move(client)), target_port_(target_port) {
    send_at_once(client_);
    let_through(faults);
    change(faults);
  }

  bool over() const { return over_; }

  void abort() {
    client_.abort();
    server_.abort();
    over_ = true;
  }

  // Begins to count for a cut.
  void let_through(const Faults& faults) {
    to_server_.let_through(faults.cut_to_server);
    to_client_.let_through(faults.cut_to_client);
  }

  // `faults` are others than before.
  void change(const Faults& faults) {
    if (faults.delay == milliseconds(0)) {
      to_server_.hurry();
      to_client_.hurry();
    }
    if (over_ || (faults.hold_to_server && faults.hold_to_client)) return;
    if (half_gone_) return abort();
    if (!server_.is_open()) connect();
  }

  // What to wait for: the client's side, then the server's. Where there is nothing to wait for, the descriptor is -1:
  // otherwise poll would report the end of a connection, which must not be seen through a black hole.
  void add_to(std::vector<pollfd>& waiting, const Faults& faults, Moment now) const {
    short client = 0;
    short server = 0;
    if (connecting_) server = POLLOUT;
    if (!half_gone_ && !connecting_ && !faults.hold_to_server) ask(to_server_, now, client, server);
    if (!half_gone_ && !connecting_ && !faults.hold_to_client) ask(to_client_, now, server, client);
    waiting.push_back({.fd = client == 0 ? -1 : client_.get(), .events = client, .revents = 0});
    waiting.push_back({.fd = server == 0 ? -1 : server_.get(), .events = server, .revents = 0});
  }

  // When it has something to do even if neither side says so.
  std::optional<Moment> due(const Faults& faults) const {
    if (half_gone_ || connecting_) return std::nullopt;
    const auto there = faults.hold_to_server ? std::nullopt : to_server_.due();
    const auto back = faults.hold_to_client ? std::nullopt : to_client_.due();
    return there && back ? std::min(there, back) : there ? there : back;
  }

  void act(bool client_ready, bool server_ready, const Faults& faults) {
    if (connecting_ && server_ready) finish_connecting();
    if (over_ || half_gone_ || connecting_ || !server_.is_open()) return;
    if (!faults.hold_to_server) move(to_server_, client_, client_ready, server_, faults.delay, faults.hold_to_client);
    if (over_ || half_gone_) return;
    if (!faults.hold_to_client) move(to_client_, server_, server_ready, client_, faults.delay, faults.hold_to_server);
    if (to_server_.done() && to_client_.done()) over_ = true;
  }

 private:
  static void ask(const Pipe& pipe, Moment now, short& from, short& to) {
    if (pipe.wants_to_read()) from = static_cast<short>(from | POLLIN);
    if (const auto due = pipe.due(); due && *due <= now) to = static_cast<short>(to | POLLOUT);
  }

  void connect() {
    server_ = tcp_socket();
    send_at_once(server_);
    sockaddr_in address = loopback(target_port_);
    if (::connect(server_.get(), generic(address), sizeof address) == 0) return;
    if (errno != EINPROGRESS) return abort();
    connecting_ = true;
  }

  void finish_connecting() {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(server_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    connecting_ = false;
    if (error != 0) abort();
  }

  void move(Pipe& pipe, Fd& from, bool readable, Fd& to, milliseconds delay, bool hold_back) {
    Progress progress = Progress::going;
    if (readable && pipe.wants_to_read()) progress = pipe.read(from, delay);
    if (progress == Progress::going) progress = pipe.write(to);
    if (progress == Progress::failed_to_read) abort();
    if (progress == Progress::cut) cut(from, to);
    if (progress != Progress::failed_to_write) return;
    // The receiver has ended it. The sender would hear of it by the other direction.
    if (!hold_back) return abort();
    to.abort();
    half_gone_ = true;
  }

  void cut(Fd& from, Fd& to) {
    from.abort();
    // What nobody has read would turn the close into a RST, which might overtake the last bytes.
    std::array<char, 4'096> ignored;  // NOLINT: never looked at
    while (::recv(to.get(), ignored.data(), ignored.size(), 0) > 0) continue;
    to.close();
    over_ = true;
  }

  Fd client_;
  Fd server_;
  const std::uint16_t target_port_;
  bool connecting_ = false;
  bool half_gone_ = false;  // One side is closed, and a black hole keeps it from the other.
  bool over_ = false;
  Pipe to_server_;
  Pipe to_client_;
};

}  // namespace

class TcpProxy::Loop {
 public:
  explicit Loop(std::uint16_t target_port) : target_port_(target_port) {
    if (!woken_.is_open()) fail("cannot make an event descriptor");
    listen();
    thread_ = std::thread([this] { run(); });
  }

  ~Loop() {
    order([this] { stopped_ = true; });
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

  // Has it done by the thread; returns when it is done.
  void order(std::function<void()> what) {
    std::packaged_task<void()> task(std::move(what));
    auto done = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      orders_.push_back(std::move(task));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(woken_.get(), &one, sizeof one);
    done.get();
  }

  // The rest are orders.

  void listen() {
    if (listener_.is_open()) return;
    listener_ = bound_socket(port_);
    if (::listen(listener_.get(), 128) != 0) fail("cannot listen");
  }

  void refuse() {
    reset();
    listener_.close();
  }

  void reset() {
    accept();
    for (Link& link : links_) link.abort();
    links_.clear();
  }

  void change(const std::function<void(Faults&)>& how) {
    how(faults_);
    for (Link& link : links_) link.change(faults_);
    bury();
  }

  void let_through() {
    accept();
    for (Link& link : links_) link.let_through(faults_);
  }

  std::size_t connections() {
    accept();
    return links_.size();
  }
  std::size_t accepted() {
    accept();
    return accepted_;
  }

 private:
  void run() {
    while (!stopped_) {
      const std::size_t polled = wait();
      auto link = links_.begin();
      for (std::size_t i = 0; i < polled; ++i, ++link) {
        const pollfd* const sides = &waiting_[2 + 2 * i];
        link->act(sides[0].revents != 0, sides[1].revents != 0, faults_);
      }
      bury();
      accept();
      obey();
    }
  }

  // Returns how many links, the first ones, it has waited for.
  std::size_t wait() {
    const Moment now = SteadyClock::now();
    waiting_.clear();
    waiting_.push_back({.fd = woken_.get(), .events = POLLIN, .revents = 0});
    waiting_.push_back({.fd = listener_.get(), .events = POLLIN, .revents = 0});
    int timeout_ms = -1;
    for (const Link& link : links_) {
      link.add_to(waiting_, faults_, now);
      const auto due = link.due(faults_);
      if (!due || *due <= now) continue;
      const auto left = std::chrono::ceil<milliseconds>(*due - now).count();
      const int left_ms = static_cast<int>(std::min<std::int64_t>(left, std::numeric_limits<int>::max()));
      timeout_ms = timeout_ms < 0 ? left_ms : std::min(timeout_ms, left_ms);
    }
    ::poll(waiting_.data(), waiting_.size(), timeout_ms);
    return links_.size();
  }

  void accept() {
    while (listener_.is_open()) {
      Fd client(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client.is_open()) return;
      ++accepted_;
      links_.emplace_back(std::move(client), target_port_, faults_);
    }
  }

  void bury() {
    links_.remove_if([](const Link& link) { return link.over(); });
  }

  void obey() {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto read = ::read(woken_.get(), &count, sizeof count);
    std::vector<std::packaged_task<void()>> orders;
    {
      const std::lock_guard lock(mutex_);
      orders.swap(orders_);
    }
    for (auto& order : orders) order();
  }

  const std::uint16_t target_port_;
  // Never listens: keeps the port ours while nobody else does.
  const Fd reserved_ = bound_socket(0);
  const std::uint16_t port_ = port_of(reserved_);
  const Fd woken_{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};

  std::mutex mutex_;
  std::vector<std::packaged_task<void()>> orders_;  // guarded by mutex_

  // The thread's own.
  Fd listener_;
  Faults faults_;
  std::list<Link> links_;
  std::size_t accepted_ = 0;
  std::vector<pollfd> waiting_;
  bool stopped_ = false;

  std::thread thread_;
};

TcpProxy::TcpProxy(std::uint16_t target_port) : loop_(std::make_unique<Loop>(target_port)) {}

TcpProxy::~TcpProxy() = default;

std::uint16_t TcpProxy::port() const {
  return loop_->port();
}

void TcpProxy::pass() {
  loop_->order([this] {
    loop_->change([](Faults& faults) { faults = {}; });
    loop_->let_through();
    loop_->listen();
  });
}

void TcpProxy::delay(milliseconds by) {
  loop_->order([this, by] { loop_->change([by](Faults& faults) { faults.delay = by; }); });
}

void TcpProxy::black_hole(Direction direction) {
  loop_->order([this, direction] {
    loop_->change([direction](Faults& faults) {
      faults.hold_to_server = direction != Direction::to_client;
      faults.hold_to_client = direction != Direction::to_server;
    });
  });
}

void TcpProxy::reset() {
  loop_->order([this] { loop_->reset(); });
}

void TcpProxy::cut_after(std::size_t bytes, Direction direction) {
  loop_->order([this, bytes, direction] {
    loop_->change([bytes, direction](Faults& faults) {
      if (direction != Direction::to_client) faults.cut_to_server = bytes;
      if (direction != Direction::to_server) faults.cut_to_client = bytes;
    });
    loop_->let_through();
  });
}

void TcpProxy::refuse() {
  loop_->order([this] { loop_->refuse(); });
}

std::size_t TcpProxy::connections() const {
  std::size_t count = 0;
  loop_->order([&] { count = loop_->connections(); });
  return count;
}

std::size_t TcpProxy::accepted() const {
  std::size_t count = 0;
  loop_->order([&] { count = loop_->accepted(); });
  return count;
}

}  // namespace waybill
