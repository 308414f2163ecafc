#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "waybill/database.h"
#include "waybill/domain_event.h"
#include "waybill/log.h"

// Tables made from the event store: what the queries of an application want to see. They can be made anew at any time.
namespace waybill {

// What a projection is. Its tables are in a schema of its own, and its statements name them without one: they run with
// that schema first on the search path, so that the same handlers fill the shadow of a rebuild. In SQLite there is no
// schema: the tables' names are the projection's own to choose.
struct Projection {
  std::string name{};  // [a-z_][a-z0-9_]*, 1 to 40
  std::string ddl{};   // Makes the tables, in an empty schema; in SQLite drops them first.
  EventHandlers<Connection&> handlers{};
  std::string stream_type{};  // Only streams of this type; empty: all.
};

struct ProjectionProgress {
  std::int64_t handled = 0;         // events, since the tables were made
  std::int64_t behind = 0;          // that are there and not handled; at most some thousand are counted
  std::chrono::milliseconds lag{};  // how long ago the oldest of these was recorded
};

// Keeps one projection up to date. State and checkpoint are written in one transaction: each event has its effect once,
// whatever is killed when. Several runners of one projection take turns. Used by one thread.
class Projector {
 public:
  // `connect` makes a connection of its own for it.
  Projector(Projection projection, std::function<std::unique_ptr<Connection>()> connect, Log log = {},
            std::string schema = "waybill");
  ~Projector();

  // Makes the tables if they are not there, then handles what is there now. Returns how many events that was. Throws
  // what a handler throws: nothing of that batch is written, and the event is named.
  std::int64_t catch_up();
  // The same until it is stopped; waits for news in between. A handler that throws is tried again, later and later.
  void run(const std::stop_token& stop);

  // Makes the tables anew beside the old ones, from the first event, and puts them in their place when they have caught
  // up; readers see the old ones until then, and whoever runs the projection goes on with it. `tell(done, of about)`
  // every few hundred events. SQLite: in place, in one transaction.
  void rebuild(const std::function<void(std::int64_t, std::int64_t)>& tell = {});

  ProjectionProgress progress();

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace waybill
