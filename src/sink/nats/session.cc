#include "sink/nats/session.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "sink/nats/ack.h"
#include "sink/nats/stream.h"

namespace waybill::nats {
namespace {

using namespace std::chrono_literals;
using Kind = Outcome::Kind;

// A stream that has taken an event within this time is there.
constexpr auto lately = 10s;

// Where many acks are awaited they are collected some at a time: to wake up for each costs more than the rest of it. So
// many, and no longer than that.
constexpr std::size_t gathered_max = 64;
constexpr auto gathering_max = 500us;

bool is_about(const std::string& violation, const std::string& subject) {
  return violation.find('"' + subject.substr(0, 150)) != std::string::npos;
}

}  // namespace

void Repetitions::add(Steady now) {
  const std::scoped_lock lock(mutex_);
  ++count_;
  if (said_ != Steady{} && now - said_ < 1min) return;
  said_ = now;
  log_.info("the stream had events already, of attempts whose acks were lost", {{"repeated", std::to_string(count_)}});
}

Session::Session(std::shared_ptr<const NatsOptions> options, std::shared_ptr<Repetitions> repetitions,
                 std::size_t first_server)
    : options_(std::move(options)),
      repetitions_(std::move(repetitions)),
      first_server_(first_server),
      composer_(*options_),
      beat_(system_clock().steady()) {}

Session::~Session() {
  WAYBILL_ASSERT(!thread_.joinable());
}

// --- The owner's side

void Session::start() {
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
}

bool Session::put(std::vector<Parcel>& parcels) {
  const std::scoped_lock lock(mutex_);
  if (stage_ == Stage::over) return false;
  given_.insert(given_.end(), parcels.begin(), parcels.end());
  parcels.clear();
  if (std::exchange(sleeping_, false) && connection_) connection_->wake();
  return true;
}

void Session::collect(std::vector<Outcome>& outcomes, Steady deadline) {
  std::unique_lock lock(mutex_);
  await_outcomes(lock, std::clamp(flight_.size() / 8, std::size_t{1}, gathered_max),
                 std::min(deadline, system_clock().steady() + gathering_max));
  while (outcomes_.empty() && stage_ != Stage::over) {
    interrupt_if_stuck();
    const Steady now = system_clock().steady();
    if (now >= deadline) return;
    await_outcomes(lock, 1, std::min(deadline, now + 1s));
  }
  outcomes.insert(outcomes.end(), std::make_move_iterator(outcomes_.begin()), std::make_move_iterator(outcomes_.end()));
  outcomes_.clear();
}

// Waits for so many, or the end.
void Session::await_outcomes(std::unique_lock<std::mutex>& lock, std::size_t count, Steady deadline) {
  awaited_ = count;
  changed_.wait_until(lock, deadline, [&] { return outcomes_.size() >= count || stage_ == Stage::over; });
  awaited_ = 0;
}

// In the middle of a TLS record the library waits for the rest without a limit.
void Session::interrupt_if_stuck() {
  if (stage_ == Stage::up && connection_ && system_clock().steady() - beat_.load() > 3 * options_->heartbeat)
    connection_->interrupt();
}

void Session::await(Steady deadline) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return stage_ != Stage::connecting; });
}

bool Session::is_up() {
  const std::scoped_lock lock(mutex_);
  return stage_ == Stage::up;
}

bool Session::is_over() {
  const std::scoped_lock lock(mutex_);
  return stage_ == Stage::over;
}

std::string Session::trouble() {
  const std::scoped_lock lock(mutex_);
  return trouble_;
}

void Session::stop(Steady deadline) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  if (connection_) {
    connection_->interrupt();
    connection_->wake();
  }
  changed_.wait_until(lock, deadline, [this] { return stage_ != Stage::connecting; });
  if (stage_ == Stage::connecting) {
    thread_.detach();
    return;
  }
  changed_.wait(lock, [this] { return stage_ == Stage::over; });
  lock.unlock();
  thread_.join();
}

// --- The thread's side

void Session::run() {
  std::string trouble;
  try {
    trouble = connect();
    if (trouble.empty()) trouble = work();
  } catch (const Error& error) {
    trouble = error.what();
  }
  finish(trouble);
  nats_ReleaseThreadMemory();
}

// Returns why there is no connection; empty if there is one.
std::string Session::connect() {
  const auto& servers = options_->servers;
  std::string troubles;
  for (std::size_t i = 0; i < servers.size(); ++i) {
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) return "closed";
    }
    std::string trouble;
    auto connection = Connection::open(
        *options_, servers[(first_server_ + i) % servers.size()],
        [this](const Connection::Reply& reply) { on_reply(reply); }, trouble);
    if (!connection) {
      troubles += (troubles.empty() ? "cannot connect to " : "; ") + trouble;
      continue;
    }
    const std::scoped_lock lock(mutex_);
    connection_ = std::move(connection);
    return {};
  }
  return troubles;
}

std::string Session::prepare_stream() {
  const NatsStream& stream = options_->stream;
  if (!stream.create) return {};
  const Steady deadline = system_clock().steady() + options_->connect_timeout;
  StreamAnswer answer = look_up_stream(*connection_, stream, deadline);
  if (answer.missing) answer = create_stream(*connection_, stream, deadline);
  if (answer.error.empty()) return {};
  return fmt::format("{}: stream {} is not there and could not be made: {}", connection_->where(), stream.name,
                     answer.error);
}

// Returns why it came to an end.
std::string Session::work() {
  if (auto trouble = prepare_stream(); !trouble.empty()) return trouble;
  beat_ = system_clock().steady();
  {
    const std::scoped_lock lock(mutex_);
    if (stopping_) return "closed";  // Its events may be no more.
    stage_ = Stage::up;
    changed_.notify_all();
  }
  while (true) {
    const Steady now = system_clock().steady();
    beat_ = now;
    send();
    if (auto over = watch(now); !over.empty()) return over;
    Steady deadline = next_look(now);
    {
      const std::scoped_lock lock(mutex_);
      if (stopping_) return "closed";
      if (!given_.empty() && takes_more())
        deadline = now;
      else
        sleeping_ = true;
    }
    const bool alive = connection_->pump(deadline);
    const std::scoped_lock lock(mutex_);
    sleeping_ = false;
    if (!alive) return connection_->trouble();
  }
}

// Hands to the library what it takes now; it is written by the next pump(), so that no ack can come before this ends.
void Session::send() {
  std::uint64_t number = 0;
  {
    const std::scoped_lock lock(mutex_);
    queue_.insert(queue_.end(), given_.begin(), given_.end());
    given_.clear();
    number = flight_.next_number();
  }
  while (!queue_.empty() && takes_more() && send_one(queue_.front(), number + sent_.size())) queue_.pop_front();
  if (sent_.empty() && refused_.empty()) return;
  const Steady now = system_clock().steady();
  const std::scoped_lock lock(mutex_);
  for (const Parcel& parcel : sent_) flight_.add(parcel, now);
  sent_.clear();
  if (refused_.empty()) return;
  outcomes_.insert(outcomes_.end(), refused_.begin(), refused_.end());
  refused_.clear();
  changed_.notify_all();
}

// False if the connection is lost.
bool Session::send_one(const Parcel& parcel, std::uint64_t number) {
  std::string refused = composer_.compose(*parcel.event, subject_, message_);
  if (refused.empty()) {
    const std::size_t size = wire_size(message_);
    if (const std::size_t most = connection_->max_payload(); size > most)
      refused = fmt::format("its message has {} bytes with its headers, {} takes {} at most (max_payload)", size,
                            connection_->where(), most);
  }
  if (!refused.empty()) {
    refused_.push_back({parcel.ticket, Kind::rejected, std::move(refused)});
    return true;
  }
  if (!connection_->publish(subject_, number, message_)) return false;
  sent_.push_back(parcel);
  return true;
}

Steady Session::next_look(Steady now) {
  const auto pause = std::clamp<std::chrono::milliseconds>(options_->heartbeat / 4, 10ms, 1s);
  const std::scoped_lock lock(mutex_);
  if (flight_.size() == 0) return now + pause;
  return std::min(now + pause, flight_.oldest() + options_->ack_timeout);
}

// Returns why the session must end; empty if it need not.
std::string Session::watch(Steady now) {
  if (auto over = watch_acks(now); !over.empty()) return over;
  if (auto over = watch_server(now); !over.empty()) return over;
  note_violations(now);
  if (leaving_.empty()) return {};
  const std::scoped_lock lock(mutex_);
  return flight_.size() == 0 || now - leaving_since_ > options_->heartbeat ? leaving_ : std::string();
}

// An ack that does not come while others do is given up by itself. If none comes at all, so is the connection.
std::string Session::watch_acks(Steady now) {
  const Steady limit = now - options_->ack_timeout;
  const std::scoped_lock lock(mutex_);
  while (flight_.size() > 0 && flight_.oldest() <= limit) {
    std::string late = fmt::format("{}: no ack within {} ms", connection_->where(), options_->ack_timeout.count());
    if (last_stored_ < flight_.oldest()) return late + ", for anything";
    answer(flight_.take_oldest(), Kind::unknown, std::move(late));
  }
  return {};
}

std::string Session::watch_server(Steady now) {
  if (connection_->is_lame()) leave(connection_->where() + ": the server is about to stop (lame duck)", now);
  {
    const std::scoped_lock lock(mutex_);
    // The next session makes the stream again.
    if (std::exchange(unheard_, false) && options_->stream.create) leave("the stream is gone; it is made again", now);
  }
  if (now - connection_->heard() < options_->heartbeat) {
    pinged_ = {};
  } else if (pinged_ == Steady{}) {
    pinged_ = now;
    connection_->ping();
  } else if (now - pinged_ >= options_->heartbeat) {
    return fmt::format("{}: no sign of life for {} ms", connection_->where(), 2 * options_->heartbeat.count());
  }
  return {};
}

// The server says what it does not let us do, and then nothing: there will be no ack. What we may do is decided when we
// connect, so that the next session finds out whether it has changed.
void Session::note_violations(Steady now) {
  for (const auto& violation : connection_->take_violations()) {
    const std::string reason =
        fmt::format("{}: {}; grant it to the user that we log in as", connection_->where(), violation);
    {
      const std::scoped_lock lock(mutex_);
      answer_all(flight_.take_if([&](const Parcel& parcel) { return is_about(violation, subject_of(parcel)); }),
                 Kind::unavailable, reason);
    }
    leave(reason, now);
  }
}

// Nothing more is sent; what is on its way has a while to be answered.
void Session::leave(std::string reason, Steady now) {
  if (!leaving_.empty()) return;
  leaving_ = std::move(reason);
  leaving_since_ = now;
}

void Session::finish(const std::string& trouble) {
  std::unique_ptr<Connection> connection;
  {
    const std::scoped_lock lock(mutex_);
    connection = std::move(connection_);
  }
  connection.reset();
  const std::scoped_lock lock(mutex_);
  stage_ = Stage::over;
  trouble_ = trouble;
  answer_all(flight_.take_if([](const Parcel&) { return true; }), Kind::unknown,
             "it was sent, but its ack did not come: " + trouble);
  answer_all({queue_.begin(), queue_.end()}, Kind::unavailable, trouble);
  answer_all(given_, Kind::unavailable, trouble);
  queue_.clear();
  given_.clear();
  changed_.notify_all();
}

// --- Answers

// On a thread of the library's.
void Session::on_reply(const Connection::Reply& reply) {
  const Ack ack = reply.no_responders ? Ack{} : read_ack(reply.data);
  const Steady now = system_clock().steady();
  if (ack.duplicate) repetitions_->add(now);
  const std::scoped_lock lock(mutex_);
  const auto parcel = flight_.take(reply.number);
  if (!parcel) return;
  if (ack.stored) {
    last_stored_ = now;
    answer(*parcel, Kind::delivered, {});
    outcomes_.back().repeated = ack.duplicate;
    return;
  }
  const bool others_arrive = last_stored_ != Steady{} && now - last_stored_ < lately;
  const std::string subject = subject_of(*parcel);
  Refusal refused =
      reply.no_responders ? refusal_by_nobody(subject, others_arrive) : refusal(ack, subject, others_arrive);
  unheard_ = unheard_ || reply.no_responders;
  answer(*parcel, refused.kind, std::move(refused.reason));
}

// REQUIRES: mutex_ is locked
void Session::answer(const Parcel& parcel, Kind kind, std::string reason) {
  outcomes_.push_back({parcel.ticket, kind, std::move(reason)});
  if (awaited_ > 0 && outcomes_.size() >= awaited_) changed_.notify_all();
}

// REQUIRES: mutex_ is locked
void Session::answer_all(const std::vector<Parcel>& parcels, Kind kind, const std::string& reason) {
  for (const Parcel& parcel : parcels) answer(parcel, kind, reason);
}

std::string Session::subject_of(const Parcel& parcel) const {
  std::string subject;
  composer_.address(*parcel.event, subject);
  return subject;
}

}  // namespace waybill::nats
