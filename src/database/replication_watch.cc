#include "database/replication_watch.h"

#include <string_view>
#include <utility>

#include <libpq-fe.h>

namespace waybill {

// By the server's function that raises it: the text is translated, and its code is that of all warnings.
ReplicationWatch::ReplicationWatch(pg_conn* connection) {
  PQsetNoticeReceiver(
      connection,
      [](void* watch, const PGresult* notice) {
        const char* function = PQresultErrorField(notice, PG_DIAG_SOURCE_FUNCTION);
        if (function && std::string_view(function) == "SyncRepWaitForLSN")
          static_cast<ReplicationWatch*>(watch)->missed_ = true;
      },
      this);
}

bool ReplicationWatch::missed() {
  return std::exchange(missed_, false);
}

}  // namespace waybill
