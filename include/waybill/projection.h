#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "waybill/api.h"
#include "waybill/database.h"
#include "waybill/domain_event.h"
#include "waybill/log.h"
#include "waybill/projection_progress.h"

// Tables made from the event store: what the queries of an application want to see. They can be made anew at any time.
namespace WAYBILL_API waybill {

// What a projection is. In PostgreSQL its tables are in a schema of its own, named as it is, and its statements name
// them without one: they run with that schema first on the search path, so that the same handlers fill the shadow of a
// rebuild. In SQLite there are no schemas: the tables' names are the projection's own to choose.
struct Projection {
  std::string name{};  // [a-z_][a-z0-9_]*, 1 to 40; not ending in __shadow or __old
  // Makes the tables, in an empty schema, which alone is on the search path then. All that is to be there after a
  // rebuild belongs here: indexes, views upon the tables. (What others were granted on schema, tables and columns is
  // carried over.)
  std::string ddl{};
  // An event of which they know nothing stops the projection (UnknownType), unless they ignore_others().
  EventHandlers<Connection&> handlers{};
  std::string stream_type{};  // Only streams of this type; empty: all.
  std::string tenant{};  // Only streams of this tenant; empty: all, for a user who may see them all (waybill_reader).
  // Raise it whenever ddl or handlers change, and rebuild(): one who knows an older version, or a newer one than the
  // tables are of, does not touch them; nor does one who knows an older version rebuild them.
  std::int32_t version = 1;
};

// Keeps one projection up to date. State and checkpoint are written in one transaction: each event has its effect once,
// whatever is killed when, and those of a stream in the order of its versions. Several runners of one projection take
// turns. Used by one thread, but for wake().
class Projector {
 public:
  // `connect` makes a connection of its own for it each time it is called. Throws Error(fix_config) if a projection
  // cannot be called so.
  Projector(Projection projection, std::function<std::unique_ptr<Connection>()> connect, Log log = {},
            std::string schema = "waybill");
  ~Projector();

  // Makes the tables if they are not there, then handles what is there now. Returns how many events that was. A handler
  // that throws: nothing of that batch (at most 500) is written, and an Error names the event; what was thrown is
  // nested in it. Of what is no Error its text has the type alone: what that says may quote a payload.
  std::int64_t catch_up();
  // The same until it is stopped. In between it looks for news 50 ms after there was some, and less and less often,
  // down to once a second, while there is none: one statement each time. What fails is logged, and tried again, later
  // and later, up to a minute.
  void run(const std::stop_token& stop);
  // For those who have just appended: run() looks at once. From any thread.
  void wake();

  // Makes the tables anew beside the old ones, from the first event, and puts them in their place when they have caught
  // up; readers see the old ones until then, and whoever runs the projection goes on with it. `tell(done, of about)`
  // after each batch, quickly: after the last one the others wait. What it throws ends the rebuild, as whatever else
  // does, and nothing is changed. SQLite: in place, in one transaction, which writers wait for.
  // Of two rebuilds at once one is refused, Error(retry). Error(fix_config) if
  //   - something that is not the projection's depends on its tables, and would go with the old ones: a view, a foreign
  //     key;
  //   - they are another user's, or of a newer version, or fed with events from elsewhere;
  //   - a handler appends or enqueues an event through this library: it would be sent once more. (What it writes by SQL
  //     of its own is not noticed.)
  void rebuild(const std::function<void(std::int64_t, std::int64_t)>& tell = {});

  // Of the live one.
  ProjectionProgress progress();

 private:
  class State;
  std::unique_ptr<State> state_;
};

// All projections of a database, by name; shadows after what they are to replace.
std::vector<ProjectionProgress> projections(Connection& connection, const std::string& schema = "waybill");
// The same as Prometheus reads it: waybill_projection_lag_seconds, …_behind, …_handled_total.
std::string prometheus_text(std::span<const ProjectionProgress> projections);

// For a projection that is fed not by a Projector but with events from elsewhere, such as a broker's that an Inbox lets
// through once. Makes the tables if they are not there. Nobody can rebuild them: a new version is another projection,
// with a name of its own, that is fed from the beginning.
void make_tables(Connection& connection, const Projection& projection, const std::string& schema = "waybill");
// Handles one event in the connection's current transaction. False: it was passed over. What a handler throws comes as
// it is, and UnknownType, too: whoever consumes (waybill/consume.h) tells by it what becomes of the message.
bool handle(Connection& connection, const Projection& projection, const RecordedEvent& event);

}  // namespace waybill
