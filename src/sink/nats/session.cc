#include "sink/nats/session.h"

#include <algorithm>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "waybill/error.h"

#include "base/assert.h"
#include "base/error_text.h"
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
  return violation.find('"' + subject + '"') != std::string::npos;
}

// Does the event go to a subject that the stream we make does not take? Then it is the event's affair.
bool is_outside(const NatsStream& stream, const std::string& subject) {
  return stream.create && std::none_of(stream.subjects.begin(), stream.subjects.end(),
                                       [&](const std::string& taken) { return overlap(taken, subject); });
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
                 std::shared_ptr<net::Expiry> expiry, std::size_t first_server)
    : options_(std::move(options)),
      repetitions_(std::move(repetitions)),
      expiry_(std::move(expiry)),
      first_server_(first_server),
      composer_(*options_),
      patience_(waker_, [this] { return stopping_.load(); }) {}

Session::~Session() {
  WAYBILL_ASSERT(!thread_.joinable());
}

// --- The owner's side

void Session::start() {
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
}

bool Session::put(std::vector<Parcel>& parcels) {
  {
    const std::scoped_lock lock(mutex_);
    if (stage_ == Stage::over) return false;
    given_.insert(given_.end(), parcels.begin(), parcels.end());
  }
  open_ += parcels.size();
  parcels.clear();
  if (sleeping_.exchange(false)) waker_.wake();
  return true;
}

void Session::collect(std::vector<Outcome>& outcomes, Steady deadline) {
  const std::size_t before = outcomes.size();
  std::unique_lock lock(mutex_);
  await_outcomes(lock, std::clamp(open_ / 8, std::size_t{1}, gathered_max),
                 std::min(deadline, system_clock().steady() + gathering_max));
  await_outcomes(lock, 1, deadline);
  outcomes.insert(outcomes.end(), std::make_move_iterator(outcomes_.begin()), std::make_move_iterator(outcomes_.end()));
  outcomes_.clear();
  open_ -= outcomes.size() - before;
}

// Waits for so many, or the end.
void Session::await_outcomes(std::unique_lock<std::mutex>& lock, std::size_t count, Steady deadline) {
  awaited_ = count;
  changed_.wait_until(lock, deadline, [&] { return outcomes_.size() >= count || stage_ == Stage::over; });
  awaited_ = 0;
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
  stopping_ = true;
  waker_.wake();
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, deadline, [this] { return stage_ != Stage::connecting; });
  if (stage_ == Stage::connecting) {
    thread_.detach();
    return;
  }
  lock.unlock();
  thread_.join();
}

// --- The thread's side

void Session::run() {
  std::string trouble;
  try {
    connect();
    prepare_stream();
    trouble = work();
  } catch (const std::exception& error) {
    trouble = error_text(error);
  }
  while (!try_finish(trouble)) std::this_thread::sleep_for(100ms);
}

void Session::connect() {
  try {
    connection_ = connect_to_any(*options_, first_server_, patience_, Steady::max());
    expiry_->note(connection_->trusted_until());
  } catch (const Error& error) {
    throw Error(error.remedy(), fmt::format("cannot connect to {}", error.what()));
  }
}

void Session::prepare_stream() {
  const NatsStream& stream = options_->stream;
  if (!stream.create) return;
  const Steady deadline = system_clock().steady() + options_->connect_timeout;
  StreamAnswer answer = look_up_stream(*connection_, stream, deadline);
  if (answer.missing) answer = create_stream(*connection_, stream, deadline);
  if (answer.error.empty()) return;
  throw Error(Remedy::retry, fmt::format("{}: stream {} is not there and could not be made: {}", connection_->where(),
                                         stream.name, answer.error));
}

// Returns why it came to an end.
std::string Session::work() {
  if (!begin()) return "closed";
  const auto receive = [this](const Connection::Reply& reply) { take(reply); };
  while (true) {
    now_ = system_clock().steady();
    send();
    const bool more = connection_->move(receive);
    if (auto over = watch(); !over.empty()) return over;
    const bool idle = trade() && !more;
    if (stopping_) return "closed";
    if (idle) rest();
  }
}

// False if it is stopped already: its events may be no more.
bool Session::begin() {
  const std::scoped_lock lock(mutex_);
  if (stopping_) return false;
  stage_ = Stage::up;
  changed_.notify_all();
  return true;
}

// Gives the owner what was found out, and takes what there is to do. True if there is nothing to be sent now.
bool Session::trade() {
  bool enough = false;
  {
    const std::scoped_lock lock(mutex_);
    outcomes_.insert(outcomes_.end(), std::make_move_iterator(found_.begin()), std::make_move_iterator(found_.end()));
    enough = awaited_ > 0 && outcomes_.size() >= awaited_;
    queue_.insert(queue_.end(), given_.begin(), given_.end());
    given_.clear();
    sleeping_ = queue_.empty() || !takes_more();
  }
  found_.clear();
  if (enough) changed_.notify_all();
  return sleeping_;
}

void Session::rest() {
  const auto pause = std::clamp<std::chrono::milliseconds>(options_->heartbeat / 4, 10ms, 1s);
  Steady until = now_ + pause;
  if (flight_.size() > 0) until = std::min(until, flight_.oldest() + options_->ack_timeout);
  waker_.wait(until, connection_->fd(), connection_->waits_for_room());
  sleeping_ = false;
}

void Session::send() {
  for (; !queue_.empty() && takes_more(); queue_.pop_front()) send_one(queue_.front());
}

void Session::send_one(Parcel parcel) {
  std::string refused;
  try {
    refused = composer_.compose(*parcel.event, subject_, message_);
  } catch (const std::bad_alloc&) {
    throw;  // It is no event's fault.
  } catch (const std::exception& failure) {
    return answer(parcel, Kind::retry, "cannot be encoded: " + error_text(failure));
  }
  if (refused.empty()) {
    const std::size_t size = wire_size(message_);
    if (const std::size_t most = connection_->max_payload(); size > most)
      refused = fmt::format("its message has {} bytes with its headers, {} takes {} at most (max_payload)", size,
                            connection_->where(), most);
  }
  if (!refused.empty()) {
    answer(parcel, Kind::rejected, std::move(refused));
    found_.back().unsent = true;
    return;
  }
  parcel.begin = connection_->appended();
  connection_->publish(subject_, flight_.next_number(), message_);
  flight_.add(parcel, now_);
}

void Session::take(const Connection::Reply& reply) {
  const Ack ack = reply.no_responders ? Ack{} : read_ack(reply.data);
  if (ack.duplicate) repetitions_->add(now_);
  const auto parcel = flight_.take(reply.number);
  if (!parcel) return;
  if (ack.stored) {
    last_stored_ = now_;
    answer(*parcel, Kind::delivered, {});
    found_.back().repeated = ack.duplicate;
    return;
  }
  const std::string subject = subject_of(*parcel);
  const bool own_address = is_outside(options_->stream, subject);
  const bool others_arrive = own_address || (last_stored_ != Steady{} && now_ - last_stored_ < lately);
  Refusal refused =
      reply.no_responders ? refusal_by_nobody(subject, others_arrive) : refusal(ack, subject, others_arrive);
  unheard_ = unheard_ || (reply.no_responders && !own_address);
  answer(*parcel, refused.kind, std::move(refused.reason));
}

// Returns why the session must end; empty if it need not.
std::string Session::watch() {
  if (auto over = watch_acks(); !over.empty()) return over;
  if (auto over = watch_server(); !over.empty()) return over;
  note_violations();
  if (leaving_.empty()) return {};
  return flight_.size() == 0 || now_ - leaving_since_ > options_->heartbeat ? leaving_ : std::string();
}

// An ack that does not come while others do is given up by itself. If none comes at all, so is the connection.
std::string Session::watch_acks() {
  const Steady limit = now_ - options_->ack_timeout;
  while (flight_.size() > 0 && flight_.oldest() <= limit) {
    std::string late = fmt::format("{}: no ack within {} ms", connection_->where(), options_->ack_timeout.count());
    if (last_stored_ < flight_.oldest()) return late + ", for anything";
    answer(flight_.take_oldest(), Kind::unknown, std::move(late));
  }
  return {};
}

std::string Session::watch_server() {
  if (connection_->is_lame()) leave(connection_->where() + ": the server is about to stop (lame duck)");
  // The next session makes the stream again.
  if (std::exchange(unheard_, false) && options_->stream.create) leave("the stream is gone; it is made again");
  if (now_ - connection_->heard() < options_->heartbeat) {
    pinged_ = {};
  } else if (pinged_ == Steady{}) {
    pinged_ = now_;
    connection_->ping();
  } else if (now_ - pinged_ >= options_->heartbeat) {
    return fmt::format("{}: no sign of life for {} ms", connection_->where(), 2 * options_->heartbeat.count());
  }
  return {};
}

// The server says what it does not let us do, and then nothing: there will be no ack. What we may do is decided when we
// connect, so that the next session finds out whether it has changed.
void Session::note_violations() {
  for (const auto& violation : connection_->take_violations()) {
    const std::string reason =
        fmt::format("{}: {}; grant it to the user that we log in as", connection_->where(), violation);
    for (const Parcel& parcel :
         flight_.take_if([&](const Parcel& sent) { return is_about(violation, subject_of(sent)); }))
      answer(parcel, Kind::unavailable, reason);
    leave(reason);
  }
}

// Nothing more is sent; what is on its way has a while to be answered.
void Session::leave(std::string reason) {
  if (!leaving_.empty()) return;
  leaving_ = std::move(reason);
  leaving_since_ = now_;
}

// False if there is not enough memory for it now; then it can be called again, and answers for the rest.
bool Session::try_finish(const std::string& trouble) try {
  finish(trouble);
  return true;
} catch (const std::exception&) {
  return false;
}

void Session::finish(const std::string& trouble) {
  const std::uint64_t written = connection_ ? connection_->written() : 0;
  for (; flight_.size() > 0; flight_.take_oldest()) {
    const Parcel& parcel = flight_.oldest_parcel();
    if (parcel.begin < written)
      answer(parcel, Kind::unknown, "it was sent, but its ack did not come: " + trouble);
    else
      answer(parcel, Kind::unavailable, trouble);
  }
  connection_.reset();
  for (; !queue_.empty(); queue_.pop_front()) answer(queue_.front(), Kind::unavailable, trouble);
  const std::scoped_lock lock(mutex_);
  for (; !given_.empty(); given_.pop_back()) answer(given_.back(), Kind::unavailable, trouble);
  outcomes_.insert(outcomes_.end(), std::make_move_iterator(found_.begin()), std::make_move_iterator(found_.end()));
  stage_ = Stage::over;
  trouble_ = trouble;
  changed_.notify_all();
}

void Session::answer(const Parcel& parcel, Kind kind, std::string reason) {
  found_.push_back({parcel.ticket, kind, std::move(reason)});
}

std::string Session::subject_of(const Parcel& parcel) const {
  std::string subject;
  composer_.address(*parcel.event, subject);
  return subject;
}

}  // namespace waybill::nats
