#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "waybill/projection.h"

namespace waybill {

// What a batch has come to.
struct Step {
  std::int64_t handled = 0;
  bool looked = false;  // It has looked for what is new, and was not at something that it had found before.
  bool done = false;    // All that was found is handled.
  // All that was there when it looked is handled.
  bool level() const { return looked && done; }
};

// The tables of one projection and its checkpoint, in one of the databases. It has no state that the database does not
// have: a checkpoint is read in the transaction in which it is moved on.
class ProjectionTables {
 public:
  using Connect = std::function<std::unique_ptr<Connection>()>;
  using Tell = std::function<void(std::int64_t, std::int64_t)>;

  virtual ~ProjectionTables() = default;

  // Makes them, if they are not there. `fed`: with events from elsewhere. Throws Error(fix_config) if they are of
  // another version, or not fed in this way.
  virtual void make(Connection& connection, bool fed) = 0;
  // Is there anything to be done? Cheap.
  virtual bool news(Connection& connection) = 0;
  // Handles a batch, in a transaction of its own.
  virtual Step step(Connection& connection) = 0;
  virtual void rebuild(Connection& connection, const Connect& connect, const Tell& tell) = 0;
};

std::unique_ptr<ProjectionTables> postgres_projection(const Projection& projection, const std::string& schema,
                                                      const Log& log);
std::unique_ptr<ProjectionTables> sqlite_projection(const Projection& projection);

// What is to be done with tables that are there: to feed them with events from elsewhere, to have them follow the event
// store, to make them anew from it.
enum class Use { feed, follow, rebuild };

// Throws Error(fix_config) if tables of this version, fed or not, are not for that. What is fed cannot be rebuilt: the
// event store does not have its events.
void check_use(const Projection& projection, Use use, std::int64_t version, bool fed);

// Throws what is being handled, nested in an Error about it whose text opens with `what`. A Collision stays one.
[[noreturn]] void throw_about(const std::string& what, const std::exception& failure);

// Handles them in order; what a handler throws is nested in an Error that names the event.
void handle_all(Connection& connection, const Projection& projection, std::span<const RecordedEvent> events);

// Puts the projection's schema first on the search path, until the end of the transaction. Returns what it was.
std::string enter_schema(Connection& connection, const std::string& name);

// A statement that reads events for a batch, and no more bytes than one is to hold, however many are there. By {room}
// and {fits} it counts the `bytes` of `u`, by position, and leaves out of `b` what is too much; at least one is left.
// The column `found` says how many there are with those that were left out.
std::string with_room(std::string_view sql);
inline constexpr std::size_t found_column = 16;  // from that on with which event_at() begins

// How many events to read at once: fewer if they are large.
class BatchSize {
 public:
  explicit BatchSize(std::size_t most) : most_(most) {}
  std::size_t value() const { return value_; }
  void learn(std::span<const RecordedEvent> events);

 private:
  const std::size_t most_;
  std::size_t value_ = 50;
};

}  // namespace waybill
