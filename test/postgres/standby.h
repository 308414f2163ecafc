#pragma once

#include <string>

#include "postgres/postgres_fixture.h"

namespace waybill {

// A standby that follows a primary until it is cut off or promoted, and one of its databases.
class StandbyOf {
 public:
  StandbyOf(TmpPostgres& primary, const std::string& database)
      : primary_(primary),
        server_(TmpPostgres::Standby{primary}),
        from_(primary.url(database)),
        sql_(started(server_).url(database)) {
    catch_up();
  }
  ~StandbyOf() {
    if (crashed_) primary_.start();
  }
  StandbyOf(const StandbyOf&) = delete;
  StandbyOf& operator=(const StandbyOf&) = delete;

  // It has all that the primary has.
  void catch_up() {
    const std::string upto = from_("SELECT pg_current_wal_lsn()");
    ASSERT_TRUE(eventually([&] { return sql_("SELECT pg_last_wal_replay_lsn() >= '" + upto + "'") == "t"; }, 30s));
  }
  // From here on it gets nothing from the primary.
  void cut() {
    sql_("ALTER SYSTEM SET primary_conninfo = ''");
    sql_("SELECT pg_reload_conf()");
    ASSERT_TRUE(eventually([&] { return sql_.number("SELECT count(*) FROM pg_stat_wal_receiver") == 0; }, 30s));
  }
  // The primary dies, and is started again only when this ends.
  void take_over() {
    primary_.crash();
    crashed_ = true;
    promote();
  }
  // Beside the primary, which knows nothing of it.
  void promote() { sql_("SELECT pg_promote()"); }

  Sql& sql() { return sql_; }
  int port() const { return server_.port(); }
  std::string url(const std::string& database) const { return server_.url(database); }
  TmpPostgres& server() { return server_; }

 private:
  static TmpPostgres& started(TmpPostgres& server) {
    server.start();
    return server;
  }

  TmpPostgres& primary_;
  bool crashed_ = false;
  TmpPostgres server_;
  Sql from_;
  Sql sql_;
};

}  // namespace waybill
