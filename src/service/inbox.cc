#include "waybill/inbox.h"

#include <utility>

#include "database/sql_text.h"
#include "service/checks.h"
#include "service_sql.h"

namespace waybill {
namespace {

constexpr std::size_t consumer_bytes_max = 255;
constexpr std::size_t message_id_bytes_max = 512;
constexpr std::size_t tenant_bytes_max = 255;

}  // namespace

Inbox::Inbox(std::string consumer, std::string schema) : consumer_(std::move(consumer)), schema_(std::move(schema)) {
  check_text("inbox: the consumer's name", consumer_, 1, consumer_bytes_max);
  check_schema(schema_);
}

bool Inbox::first_time(Connection& connection, std::string_view message_id, std::string_view tenant) const {
  check_text("inbox: the message's id", message_id, 1, message_id_bytes_max);
  check_text("inbox: the tenant", tenant, 0, tenant_bytes_max);
  check_transaction(connection, "inbox");
  const Parameter whose = tenant.empty() ? Parameter{} : parameter(tenant);
  if (connection.dialect() == Dialect::sqlite)
    return connection.run(service_sql::first_time_sqlite, consumer_, message_id, whose).affected() == 1;
  const Rows rows = connection.run(filled_in(service_sql::first_time, "schema", schema_), consumer_, message_id, whose);
  if (!rows.null(0, 1)) connection.note_transaction(rows.text(0, 1));
  return rows.boolean(0, 0);
}

}  // namespace waybill
