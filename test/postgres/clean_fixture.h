#pragma once

#include <string>

#include "postgres/postgres_fixture.h"

namespace waybill {

class CleanTest : public PostgresTest {
 protected:
  explicit CleanTest(TmpPostgres& the_server = TmpPostgres::shared()) : PostgresTest(1, the_server) {}

  // A slot far from the clock.
  std::string far_slot(int ahead = 4) {
    return app("SELECT (extract(epoch FROM clock_timestamp())::bigint / slot_seconds + " + std::to_string(ahead) +
               ") % 8 FROM waybill.identity");
  }
  // All there is was written eight days ago.
  void grow_old() {
    app("UPDATE waybill.event SET created_at = created_at - interval '8 days', slot = " + far_slot());
    app("UPDATE waybill.cursor SET settled_at = settled_at - interval '8 days'");
  }
  // Published, and old.
  void publish(const std::string& destination = "out") {
    Reader reader(*store, destination);
    reader.read_all();
    reader.settle_all();
    reader.leave();
  }
  Cleaned clean(const std::string& archive_to = "") { return store->upkeep()->clean({.archive_to = archive_to}); }
  std::string log() {
    return app(
        "SELECT coalesce(string_agg(payload ->> 0, '' ORDER BY seq), '') FROM (SELECT seq, "
        "json_build_array(payload) AS payload FROM waybill.event) e");
  }
  // Inserts an old event in a transaction that is still open.
  static void begin_late(Sql& sql, const std::string& slot) {
    sql("BEGIN; INSERT INTO waybill.event (topic, key, payload, slot, created_at) VALUES ('t', 'k', '\"late\"', " +
        slot + ", clock_timestamp() - interval '8 days')");
  }
};

}  // namespace waybill
