#include "store/postgres/rights.h"

#include <fmt/format.h>

#include "waybill/error.h"

#include "store/postgres/connection.h"

namespace waybill {
namespace {

std::string role_for(const std::string& schema, PgRight right) {
  switch (right) {
    case PgRight::enqueue:
      return schema + "_enqueue";
    case PgRight::relay:
      return schema + "_relay";
    case PgRight::operate:
      return schema + "_operator";
    case PgRight::read:
      return schema + "_reader";
    case PgRight::own:
      break;
  }
  return "";
}

// Identifiers as SQL has them.
struct Facts {
  std::string user;
  std::string database;
  std::string owner;  // of the schema; empty: there is no such schema
  bool role_exists = false;
  bool is_member = false;
  bool inherits = false;  // and has the rights of the role
};

Facts ask(const std::string& url, const std::string& schema, const std::string& role) {
  const PgQuery query{"rights", R"(
    SELECT pg_catalog.quote_ident(current_user), pg_catalog.quote_ident(pg_catalog.current_database()),
           (SELECT pg_catalog.quote_ident(pg_catalog.pg_get_userbyid(n.nspowner)) FROM pg_catalog.pg_namespace n
            WHERE n.nspname = $1),
           r.oid IS NOT NULL, coalesce(pg_catalog.pg_has_role(r.oid, 'MEMBER'), false),
           coalesce(pg_catalog.pg_has_role(r.oid, 'USAGE'), false)
    FROM (SELECT) one LEFT JOIN pg_catalog.pg_roles r ON r.rolname = $2)"};
  PgConnection connection(url, "rights");
  const PgRows rows = connection.run({&query, {schema, role}});
  return {.user = std::string(rows.text(0, 0)),
          .database = std::string(rows.text(0, 1)),
          .owner = rows.null(0, 2) ? "" : std::string(rows.text(0, 2)),
          .role_exists = rows.boolean(0, 3),
          .is_member = rows.boolean(0, 4),
          .inherits = rows.boolean(0, 5)};
}

std::string way_to_own(const Facts& facts, const std::string& schema) {
  if (facts.owner.empty())
    return fmt::format("to make the tables: GRANT CREATE ON DATABASE {} TO {}", facts.database, facts.user);
  if (facts.owner == facts.user)
    return fmt::format("schema '{}' belongs to this user, but something in it does not: make {} its owner", schema,
                       facts.user);
  return fmt::format("only the owner of schema '{}' may do this: log in as {}", schema, facts.owner);
}

}  // namespace

std::string way_to_right(const std::string& url, const std::string& schema, PgRight right) {
  const std::string role = role_for(schema, right);
  Facts facts;
  try {
    facts = ask(url, schema, role);
  } catch (const Error&) {
    return role.empty() ? fmt::format("only the owner of schema '{}' may do this", schema)
                        : fmt::format("this takes the role {}", role);
  }
  if (right == PgRight::own) return way_to_own(facts, schema);
  if (!facts.role_exists)
    return fmt::format(
        "this takes the role {0}, which does not exist: run 'waybill migrate' as a user who may create "
        "roles, then GRANT {0} TO {1}",
        role, facts.user);
  if (!facts.is_member) return fmt::format("this takes the role {0}: GRANT {0} TO {1}", role, facts.user);
  if (!facts.inherits)
    return fmt::format("user {} has the role {} but does not inherit its rights (NOINHERIT)", facts.user, role);
  return fmt::format("user {} has the role {}, but the role lacks this right: run 'waybill migrate' as {}", facts.user,
                     role, facts.owner);
}

}  // namespace waybill
