#include "sink/nats/connection.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <thread>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "sink/nats/connect_guard.h"
#include "sink/nats/library_options.h"

namespace waybill::nats {
namespace {

using namespace std::chrono_literals;

constexpr int buffer_size = 64 * 1024;
constexpr char question_mark = 'q';  // The number of a question begins with it.

// What the library says about a connection it says on a thread of its own, maybe when the connection is no more
// (nats.c #735): whoever is not in here hears nothing.
struct Living {
  std::mutex mutex;
  std::map<natsConnection*, Connection*> connections;  // guarded by mutex
};

Living& living() {
  static Living* const all = new Living;  // Never freed: the library's threads outlive main().
  return *all;
}

int milliseconds_until(Steady deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - system_clock().steady());
  return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
}

}  // namespace

struct Connection::Callbacks {
  static natsStatus attach(void** user_data, void* loop, natsConnection*, int socket) {
    auto* const self = static_cast<Connection*>(loop);
    *user_data = loop;
    self->socket_ = socket;
    self->line_ = ::fcntl(socket, F_DUPFD_CLOEXEC, 0);
    ConnectGuard::spare(socket);
    return self->line_ >= 0 ? NATS_OK : NATS_SYS_ERROR;
  }
  static natsStatus read(void*, bool) { return NATS_OK; }
  static natsStatus write(void* loop, bool wanted) {
    static_cast<Connection*>(loop)->wants_to_write_ = wanted;
    return NATS_OK;
  }
  static natsStatus detach(void* loop) {
    auto* const self = static_cast<Connection*>(loop);
    ConnectGuard::forget(self->socket_);
    self->socket_ = -1;
    return NATS_OK;
  }

  static void message(natsConnection*, natsSubscription*, natsMsg* message, void* closure) {
    static_cast<Connection*>(closure)->on_message(message);
    natsMsg_Destroy(message);
  }
  static void complete(void* closure) {
    auto* const self = static_cast<Connection*>(closure);
    const std::scoped_lock lock(self->mutex_);
    self->complete_ = true;
    self->completed_.notify_all();
  }

  static void error(natsConnection* of, natsSubscription*, natsStatus status, void*) {
    if (status != NATS_NOT_PERMITTED) return;
    const std::scoped_lock lock(living().mutex);
    const auto found = living().connections.find(of);
    if (found == living().connections.end()) return;
    Connection& self = *found->second;
    {
      const std::scoped_lock inner(self.mutex_);
      self.violations_.push_back(library_error(status));
    }
    self.wake();
  }
  static void lame_duck(natsConnection* of, void*) {
    const std::scoped_lock lock(living().mutex);
    const auto found = living().connections.find(of);
    if (found == living().connections.end()) return;
    found->second->lame_ = true;
    found->second->wake();
  }
};

std::unique_ptr<Connection> Connection::open(const NatsOptions& options, const NatsServer& server, Receive receive,
                                             std::string& trouble) {
  std::unique_ptr<Connection> connection(new Connection(server, std::move(receive)));
  trouble = connection->connect(options, server);
  if (trouble.empty()) trouble = connection->subscribe(options.inbox_prefix);
  if (trouble.empty()) return connection;
  trouble = fmt::format("{}: {}", connection->where_, trouble);
  return nullptr;
}

Connection::Connection(const NatsServer& server, Receive receive)
    : where_(server.text()), receive_(std::move(receive)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  WAYBILL_ASSERT(wake_ >= 0);
}

Connection::~Connection() {
  close();
  if (line_ >= 0) ::close(line_);
  ::close(wake_);
}

std::string Connection::connect(const NatsOptions& options, const NatsServer& server) {
  LibraryOptions library;
  if (auto trouble = library.fill(options, server); !trouble.empty()) return trouble;
  natsOptions_SetIOBufSize(library.get(), buffer_size);
  natsOptions_SetEventLoop(library.get(), this, Callbacks::attach, Callbacks::read, Callbacks::write,
                           Callbacks::detach);
  natsOptions_SetErrorHandler(library.get(), Callbacks::error, nullptr);
  natsOptions_SetLameDuckModeCB(library.get(), Callbacks::lame_duck, nullptr);
  const Steady deadline = system_clock().steady() + options.connect_timeout;
  natsStatus status = NATS_OK;
  {
    const ConnectGuard guard(server.port, deadline + 500ms);
    status = natsConnection_Connect(&connection_, library.get());
  }
  heard_ = system_clock().steady();
  if (status == NATS_OK) {
    const std::scoped_lock lock(living().mutex);
    living().connections.emplace(connection_, this);
    return {};
  }
  connection_ = nullptr;
  if (heard_ >= deadline) return fmt::format("no answer within {} ms", options.connect_timeout.count());
  return library_error(status);
}

std::string Connection::subscribe(const std::string& inbox_prefix) {
  natsInbox* inbox = nullptr;
  if (const auto status = natsInbox_Create(&inbox); status != NATS_OK) return library_error(status);
  const std::string_view made = inbox;
  inbox_ = fmt::format("{}.{}.", inbox_prefix, made.substr(made.rfind('.') + 1));
  natsInbox_Destroy(inbox);
  auto status = natsConnection_Subscribe(&subscription_, connection_, (inbox_ + "*").c_str(), Callbacks::message, this);
  if (status != NATS_OK) return library_error(status);
  complete_ = false;
  natsSubscription_SetPendingLimits(subscription_, -1, -1);
  status = natsSubscription_SetOnCompleteCB(subscription_, Callbacks::complete, this);
  WAYBILL_ASSERT(status == NATS_OK);
  return {};
}

// Once this has returned nothing is called any more.
void Connection::close() {
  if (!connection_) return;
  {
    const std::scoped_lock lock(living().mutex);
    living().connections.erase(connection_);
  }
  // natsConnection_Close() would wait for a last sign of the server if there is something to send. The end of the line
  // is found by reading, which closes without more ado.
  interrupt();
  for (int i = 0; i < 10'000 && !natsConnection_IsClosed(connection_); ++i) {
    errno = 0;
    natsConnection_ProcessReadEvent(connection_);
  }
  natsConnection_Close(connection_);
  {
    std::unique_lock lock(mutex_);
    completed_.wait(lock, [this] { return complete_; });
  }
  natsSubscription_Destroy(subscription_);
  natsConnection_Destroy(connection_);
  connection_ = nullptr;
}

bool Connection::publish(const std::string& subject, std::uint64_t number, const Message& message) {
  reply_ = inbox_;
  fmt::format_to(std::back_inserter(reply_), "{}", number);
  natsMsg* made = nullptr;
  auto status = natsMsg_Create(&made, subject.c_str(), reply_.c_str(), message.body.data(),
                               static_cast<int>(message.body.size()));
  for (std::size_t i = 0; i < message.headers.size() && status == NATS_OK; ++i) {
    const auto header = message.headers[i];
    name_ = header.name;
    value_ = header.value;
    status = natsMsgHeader_Add(made, name_.c_str(), value_.c_str());
  }
  if (status == NATS_OK) status = natsConnection_PublishMsg(connection_, made);
  natsMsg_Destroy(made);
  WAYBILL_ASSERT(status != NATS_MAX_PAYLOAD && status != NATS_INVALID_SUBJECT && status != NATS_INVALID_ARG);
  if (status == NATS_NO_MEMORY) throw std::bad_alloc();
  return status == NATS_OK;
}

bool Connection::pump(Steady deadline) {
  if (natsConnection_IsClosed(connection_)) return false;
  const short wanted = static_cast<short>(POLLIN | POLLRDHUP | (wants_to_write_ ? POLLOUT : 0));
  pollfd files[2]{{.fd = line_, .events = wanted, .revents = 0}, {.fd = wake_, .events = POLLIN, .revents = 0}};
  if (::poll(files, 2, milliseconds_until(deadline)) <= 0) return true;
  if (files[1].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const auto got = ::read(wake_, &count, sizeof(count));
  }
  if (files[0].revents != 0) move_bytes(files[0].revents);
  return !natsConnection_IsClosed(connection_);
}

// After a failure of TLS the library looks at errno, which may be of long ago: it would take "try again" for an answer.
void Connection::move_bytes(short events) {
  errno = 0;
  if ((events & POLLOUT) != 0) natsConnection_ProcessWriteEvent(connection_);
  if ((events & ~POLLOUT) == 0) return;
  if ((events & (POLLRDHUP | POLLHUP | POLLERR)) != 0) let_acks_through();
  errno = 0;
  natsConnection_ProcessReadEvent(connection_);
  heard_ = system_clock().steady();
}

// The end is in sight. When it is read, the library throws away what it has not handed out to us yet.
void Connection::let_acks_through() {
  for (int i = 0; i < 100; ++i) {
    int messages = 0;
    int bytes = 0;
    if (natsSubscription_GetPending(subscription_, &messages, &bytes) != NATS_OK || messages == 0) return;
    std::this_thread::sleep_for(1ms);
  }
}

bool Connection::is_full() const {
  return natsConnection_Buffered(connection_) >= buffer_size;
}

// Puts a PING on its way, and waits for the answer for the shortest time there is: we are the ones who would read it.
void Connection::ping() {
  natsConnection_FlushTimeout(connection_, 1);
}

void Connection::on_message(natsMsg* message) {
  std::string_view token = natsMsg_GetSubject(message);
  token.remove_prefix(std::min(token.size(), inbox_.size()));
  const std::string_view data(natsMsg_GetData(message), static_cast<std::size_t>(natsMsg_GetDataLength(message)));
  const bool is_question = token.starts_with(question_mark);
  if (is_question) token.remove_prefix(1);
  std::uint64_t number = 0;
  std::from_chars(token.data(), token.data() + token.size(), number);
  if (!is_question) {
    receive_({.number = number, .data = data, .no_responders = natsMsg_IsNoResponders(message)});
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    if (number != questions_) return;
    answer_ = {.data = std::string(data), .no_responders = natsMsg_IsNoResponders(message)};
  }
  wake();
}

std::optional<Connection::Answer> Connection::ask(const std::string& subject, std::string_view body, Steady deadline) {
  std::string reply;
  {
    const std::scoped_lock lock(mutex_);
    answer_.reset();
    reply = fmt::format("{}{}{}", inbox_, question_mark, ++questions_);
  }
  const auto status = natsConnection_PublishRequest(connection_, subject.c_str(), reply.c_str(), body.data(),
                                                    static_cast<int>(body.size()));
  if (status != NATS_OK) return std::nullopt;
  while (pump(deadline)) {
    const std::scoped_lock lock(mutex_);
    if (answer_) return std::move(answer_);
    if (!violations_.empty() || system_clock().steady() >= deadline) break;
  }
  return std::nullopt;
}

std::vector<std::string> Connection::take_violations() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(violations_, {});
}

std::size_t Connection::max_payload() const {
  return static_cast<std::size_t>(std::max<std::int64_t>(natsConnection_GetMaxPayload(connection_), 0));
}

std::string Connection::trouble() const {
  const char* text = nullptr;
  const natsStatus status = natsConnection_GetLastError(connection_, &text);
  if (text && *text) return fmt::format("{}: {}", where_, text);
  return fmt::format("{}: {}", where_, status == NATS_OK ? "the connection was lost" : natsStatus_GetText(status));
}

void Connection::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof(one));
}

void Connection::interrupt() {
  if (line_ >= 0) ::shutdown(line_, SHUT_RDWR);
}

}  // namespace waybill::nats
