#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "waybill/api.h"
#include "waybill/database.h"
#include "waybill/domain_event.h"
#include "waybill/error.h"
#include "waybill/event.h"
#include "waybill/log.h"
#include "waybill/time.h"

// From a broker's queue into a database: each message is handled in one transaction with its row in the inbox, and
// acknowledged when that is committed. So it has its effect once, whatever dies in between.
//
//   waybill::EventHandlers<waybill::Connection&> handlers;
//   handlers.on<OrderPlaced>([](const OrderPlaced& placed, const waybill::RecordedEvent&, waybill::Connection& db) {
//     db.run("UPDATE stock SET reserved = reserved + 1 WHERE item = $1", placed.item);
//   });
//   const auto database = waybill::connect("postgresql://stock@db/stock");
//   waybill::Consumer consumer({.name = "stock"}, *database,
//                              waybill::rabbitmq_source({.url = "amqp://stock@broker", .queue = "stock"}, log),
//                              waybill::by_type(handlers), log);
//   consumer.run(stop);  // in a thread of its own
namespace WAYBILL_API waybill {

// A message as a broker brought it, out of its envelope.
struct Delivery {
  // What it is known by in the inbox: as its sender made it. Of CloudEvents with an id that is no UUID "SOURCE ID", for
  // it may be somebody else's, too.
  std::string id{};
  RecordedEvent event{};             // What it tells. Its `id` is zero if `id` is no UUID.
  std::optional<std::string> key{};  // What its order is kept by; empty: it has none. None: the message does not tell.
  std::vector<Header> headers{};     // All of them, the envelope's too, in their order.
  std::string content_type{};        // Of the payload.
  std::string correlation_id{};      // As the message says it; empty: not at all.
  std::string address{};             // The routing key or subject that it was published with.
  std::int64_t deliveries = 1;       // How often the broker has handed it out, this time included, as far as it counts.
  int attempts = 1;                  // How often it has been tried by this process, this time included.
};

// Thrown by a handler: the message will never be acceptable as it is. It is given up at once.
class Rejection : public Error {
 public:
  explicit Rejection(const std::string& text) : Error(Remedy::fix_input, text) {}
};

// What is done with a message, in a transaction on `connection` that is committed afterwards: no other effects, for it
// may be begun again. The current EventContext is the message's: what is recorded or enqueued here follows from it.
//
// What it throws rolls everything back:
//   Rejection                the message is given up at once
//   UnknownType              the same, if it is this message's type
//   anything else            it is tried again later, and given up after `attempts`
//   Error(fix_config)        the same; but as a person must mend something, which may be no message's fault, it counts
//                            as an attempt only if other messages were handled since the last one
// A connection to the database that is lost meanwhile counts from the second time on, a lost answer to COMMIT never:
// the inbox tells whether it was committed. While the database is away everything waits, and nothing counts.
using HandleDelivery = std::function<void(Connection& connection, const Delivery& delivery)>;

// Handlers by the event's type. A type that nobody has a handler for is a failure, unless ignore_others() was said.
inline HandleDelivery by_type(EventHandlers<Connection&> handlers) {
  return [handlers = std::move(handlers)](Connection& connection, const Delivery& delivery) {
    handlers.handle(delivery.event, connection);
  };
}

// How messages are read that do not say it themselves. CloudEvents (both modes) and MassTransit do.
enum class MessageForm {
  automatic,  // An object with the members of Waybill's own envelope is that, anything else is `raw`.
  waybill,    // Waybill's own envelope; anything else is given up.
  raw,        // The body is the payload.
};

struct ConsumerOptions {
  std::string name{};  // Under which it is remembered what was handled: 1 to 255 bytes, the same for all its processes.
  std::string schema = "waybill";
  MessageForm form = MessageForm::automatic;
  // The tenant of everything that comes; what says to be of another is given up. Empty: whoever the message says, and
  // if it says nothing, as the database's user is set up.
  std::string tenant{};

  // The wait before attempt n+1 is random between half of and the whole of first_delay * 2^(n-1), at most max_delay.
  int attempts = 10;  // By one process, the first included; 0: any number.
  std::chrono::milliseconds first_delay{1'000};
  std::chrono::milliseconds max_delay{60'000};

  // Told of each failure, for those who may log more than we do: our lines hold the text of an Error, and of other
  // exceptions only what they are called, for their text may quote the payload. Must not throw.
  std::function<void(const Delivery& delivery, const std::exception& failure)> on_failure{};
};

// What a consumer has done since it was made.
struct ConsumerCounts {
  std::uint64_t received = 0;    // by us; those that came again, too
  std::uint64_t handled = 0;     // committed
  std::uint64_t duplicates = 0;  // had been handled before: acknowledged, nothing ran
  std::uint64_t failed = 0;      // attempts that were rolled back
  std::uint64_t rejected = 0;    // given up
  std::uint64_t outages = 0;     // how often the connection to the broker was lost
  std::size_t waiting = 0;       // are here now, and not acknowledged
  std::size_t retrying = 0;      // of those, have failed
  bool broker_away = false;
  bool store_away = false;  // or does not let us in
};

// A message as it came, before it is out of its envelope.
struct Incoming {
  std::uint64_t ticket = 0;  // The source's number for it, never used twice.
  std::string id{};          // What the protocol has a place of its own for; empty: not there.
  std::string type{};
  std::string content_type{};
  std::string correlation_id{};
  std::optional<Time> timestamp{};
  std::vector<Header> headers{};
  std::string body{};
  std::string address{};
  std::int64_t deliveries = 1;
  std::string unreadable{};  // Why the source could not take it in; empty if it could.
};

// Where messages come from. One thread uses it; wake() is for any.
class MessageSource {
 public:
  struct Received {
    bool lost = false;  // The connection was lost: what came before is not ours any more, and comes again.
    std::vector<Incoming> messages{};
  };

  virtual ~MessageSource() = default;

  // What has come, in its order. Returns as soon as there is something, or wake() was called, at `deadline` otherwise.
  // A broker that is away is no error: it connects again for as long as it takes. Throws Error(fix_config) if the
  // broker refuses us and has never let us in.
  virtual Received receive(Steady deadline) = 0;
  // Are done with a message: it is acknowledged, or given up, for `reason`. Nothing happens if it was lost meanwhile.
  virtual void accept(std::uint64_t ticket) = 0;
  virtual void reject(std::uint64_t ticket, const std::string& reason) = 0;
  // Is what is rejected kept somewhere? If not, nothing is given up; it is tried for ever.
  virtual bool keeps_rejected() const = 0;
  virtual bool is_away() const = 0;
  virtual void wake() noexcept = 0;
  // Lets go of everything by `deadline`: what was accepted is acknowledged, the rest comes again, to whoever is next.
  virtual void close(Steady deadline) = 0;
};

// Handles messages one after the other.
//
// Order: messages are handled in the order in which they come. One that has failed waits for its next attempt, and what
// comes after it with the same key waits behind it; other keys go on, as far as messages are here (see the source's
// `prefetch`). Messages that do not tell their key (raw, MassTransit) wait behind each other. What is given up
// is overtaken by what follows it, and so is what has no key. Whether a broker keeps the order between consumers, or
// when a connection is lost, is said where the source is made.
//
// A message is never sent back to be brought again at once: it stays here, unacknowledged, while it waits.
class Consumer {
 public:
  // `connection` must outlive it, is used by its thread alone, and was opened by connect(), so that it can be opened
  // again. Throws Error(fix_input) for options that cannot be.
  Consumer(ConsumerOptions options, Connection& connection, std::unique_ptr<MessageSource> source,
           HandleDelivery handle, Log log);
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;
  ~Consumer();

  // Until `stop`: then the message at hand is finished and acknowledged, and the connection closed. Throws nothing but
  // Error(fix_config): the broker refuses us and has never let us in.
  void run(const std::stop_token& stop);

  enum class Step { idle, handled, duplicate, failed, rejected };
  // For those who have a loop of their own: handles one message, if there is one until `deadline`. `idle` is also said
  // after a wait for broker or store.
  Step step(Steady deadline);
  // Lets go of what is not handled, and of the connection to the broker, by `deadline`, or when a host's name was
  // looked up if that is going on. It may be used again.
  void close(Steady deadline);

  // From any thread.
  ConsumerCounts counts() const;

 private:
  class Work;
  std::unique_ptr<Work> work_;
};

}  // namespace waybill
