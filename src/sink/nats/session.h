#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "waybill/log.h"
#include "waybill/sink.h"
#include "waybill/time.h"

#include "base/waker.h"
#include "broker/nats/connection.h"
#include "net/expiry.h"
#include "sink/nats/composer.h"
#include "sink/nats/flight.h"
#include "sink/nats/options.h"

namespace waybill::nats {

// How often the stream had an event already. Outlives sessions.
class Repetitions {
 public:
  explicit Repetitions(Log log) : log_(std::move(log)) {}
  // Says so in the log, the first time and then once a minute at most.
  void add(Steady now);

 private:
  const Log log_;
  std::mutex mutex_;
  std::uint64_t count_ = 0;  // guarded by mutex_, as is:
  Steady said_{};
};

// A Session is the life of one connection, and of the thread that owns it: it connects, sends what it is given, and
// takes answers until the connection is lost or the session stopped. Then it has an outcome for everything it was given
// and is over; it does not connect again.
//
// What was begun to be sent and has no ack when the connection is lost may have arrived: `unknown`. It counts as an
// attempt, so that an event which makes the server hang up is found out; an outage cannot use up an event's attempts,
// since whoever cannot connect sends nothing. All else is `unavailable`.
//
// The owner's functions are one thread's affair.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<const NatsOptions> options, std::shared_ptr<Repetitions> repetitions,
          std::shared_ptr<net::Expiry> expiry, std::size_t first_server);
  ~Session();

  void start();
  // Takes the parcels out of `parcels`. False if the session is over: then it takes none.
  bool put(std::vector<Parcel>& parcels);
  // Appends outcomes. Returns as soon as there is one or the session is over, at `deadline` otherwise.
  void collect(std::vector<Outcome>& outcomes, Steady deadline);
  // Waits until it is connected or over, at most until `deadline`.
  void await(Steady deadline);
  bool is_up();
  bool is_over();
  std::string trouble();
  // Ends it. When this has returned no event is touched any more. A thread that is still looking up a name is left to
  // itself after `deadline`.
  void stop(Steady deadline);

 private:
  enum class Stage { connecting, up, over };

  void run();
  void connect();
  void prepare_stream();
  std::string work();
  bool begin();
  bool trade();
  void rest();
  void send();
  void send_one(Parcel parcel);
  bool takes_more() const { return leaving_.empty() && !connection_->is_full(); }
  void take(const Connection::Reply& reply);
  std::string watch();
  std::string watch_acks();
  std::string watch_server();
  void note_violations();
  void leave(std::string reason);
  bool try_finish(const std::string& trouble);
  void finish(const std::string& trouble);

  void answer(const Parcel& parcel, Outcome::Kind kind, std::string reason);
  std::string subject_of(const Parcel& parcel) const;
  void await_outcomes(std::unique_lock<std::mutex>& lock, std::size_t count, Steady deadline);

  const std::shared_ptr<const NatsOptions> options_;
  const std::shared_ptr<Repetitions> repetitions_;
  const std::shared_ptr<net::Expiry> expiry_;
  const std::size_t first_server_;

  // The owner's.
  std::thread thread_;
  std::size_t open_ = 0;  // was given, and has no outcome that was collected

  // The thread's own.
  const Composer composer_;
  std::unique_ptr<Connection> connection_;
  std::deque<Parcel> queue_;  // to be sent
  Flight flight_;
  std::vector<Outcome> found_;  // not told yet
  std::string leaving_;         // Why nothing more is sent; empty if that is not so.
  Steady leaving_since_{};
  Steady now_{};  // When this turn began.
  Steady pinged_{};
  Steady last_stored_{};
  bool unheard_ = false;  // No stream took an event.
  std::string subject_;
  Message message_;

  // Both threads'.
  Waker waker_;  // the thread
  std::atomic<bool> stopping_{false};
  std::atomic<bool> sleeping_{false};  // The thread waits for the network.
  const net::Patience patience_;
  std::mutex mutex_;  // guards all that follows
  std::condition_variable changed_;
  Stage stage_ = Stage::connecting;
  std::size_t awaited_ = 0;  // The owner waits for so many outcomes; 0: for none.
  std::string trouble_;
  std::vector<Parcel> given_;
  std::vector<Outcome> outcomes_;
};

}  // namespace waybill::nats
