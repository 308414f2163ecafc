#include "session.h"

#include <stdexcept>

namespace tenants {
namespace {

using waybill::Connection;
using waybill::Rows;

// The version after what has happened.
template <typename A>
std::int64_t next_version(const A& aggregate) {
  return aggregate.version() + std::ssize(aggregate.new_events());
}

// Whoever comes between is noticed: no stream checks versions here, so the state does.
void expect_one(const Rows& rows, const waybill::AggregateRoot& aggregate) {
  if (rows.affected() != 1) throw waybill::Conflict(aggregate.stream(), aggregate.version(), -1);
}

void save(Connection& db, const Tenant& tenant) {
  if (tenant.version() == 0) {
    db.run("INSERT INTO tenant (id, name, open, version) VALUES ($1, $2, $3, $4)", tenant.id(), tenant.name(),
           tenant.open(), next_version(tenant));
  } else {
    expect_one(db.run("UPDATE tenant SET open = $1, version = $2 WHERE id = $3 AND version = $4", tenant.open(),
                      next_version(tenant), tenant.id(), tenant.version()),
               tenant);
  }
}

void save(Connection& db, const ApiKey& key) {
  if (key.version() == 0) {
    db.run("INSERT INTO api_key (id, tenant, name, secret_hash, valid, version) VALUES ($1, $2, $3, $4, $5, $6)",
           key.id(), key.tenant(), key.name(), key.secret_hash(), key.valid(), next_version(key));
  } else {
    expect_one(db.run("UPDATE api_key SET valid = $1, version = $2 WHERE id = $3 AND version = $4", key.valid(),
                      next_version(key), key.id(), key.version()),
               key);
  }
}

ApiKey api_key_of(const Rows& rows, std::size_t row) {
  return {{.type = "api-key", .id = rows.text(row, 0), .tenant = rows.text(row, 1)},
          rows.text(row, 2),
          rows.text(row, 3),
          rows.boolean(row, 4),
          rows.integer(row, 5)};
}

constexpr std::string_view select_api_key = "SELECT id, tenant, name, secret_hash, valid, version FROM api_key";

}  // namespace

Tenant& Session::track(Tenant tenant) {
  Tenant& kept = tenants_.emplace_back(std::move(tenant));
  work_.track(kept, [](Connection& db, const Tenant& changed) { save(db, changed); });
  return kept;
}

ApiKey& Session::track(ApiKey key) {
  ApiKey& kept = keys_.emplace_back(std::move(key));
  work_.track(kept, [](Connection& db, const ApiKey& changed) { save(db, changed); });
  return kept;
}

Tenant& Session::add(Tenant tenant) {
  return track(std::move(tenant));
}

ApiKey& Session::add(ApiKey key) {
  return track(std::move(key));
}

Tenant& Session::tenant(const std::string& id) {
  const Rows rows = work_.connection().run("SELECT name, open, version FROM tenant WHERE id = $1 FOR UPDATE", id);
  if (rows.empty()) throw std::runtime_error("there is no tenant " + id);
  return track(Tenant(id, rows.text(0, 0), rows.boolean(0, 1), rows.integer(0, 2)));
}

ApiKey& Session::api_key(const std::string& id) {
  const Rows rows = work_.connection().run(std::string(select_api_key) + " WHERE id = $1 FOR UPDATE", id);
  if (rows.empty()) throw std::runtime_error("there is no API key " + id);
  return track(api_key_of(rows, 0));
}

// No "WHERE tenant = …" here, nor below: row-level security says it.
std::vector<std::reference_wrapper<ApiKey>> Session::api_keys() {
  const Rows rows = work_.connection().run(std::string(select_api_key) + " ORDER BY id FOR UPDATE");
  std::vector<std::reference_wrapper<ApiKey>> found;
  for (std::size_t row = 0; row < rows.size(); ++row) found.emplace_back(track(api_key_of(rows, row)));
  return found;
}

std::vector<ApiKey> api_keys_of(Connection& db, const std::string& tenant) {
  const Rows rows =
      waybill::with_retries(db, [](Connection& same) { return same.run(std::string(select_api_key) + " ORDER BY id"); },
                            {.transaction = {.tenant = tenant}});
  std::vector<ApiKey> found;
  for (std::size_t row = 0; row < rows.size(); ++row) found.push_back(api_key_of(rows, row));
  return found;
}

void run(Connection& db, const std::string& tenant, const std::function<void(Session&)>& doing) {
  waybill::with_retries(db,
                        [&](waybill::UnitOfWork& work) {
                          Session session(work);
                          doing(session);
                          work.commit();
                        },
                        {.streams = false, .transaction = {.tenant = tenant}});
}

}  // namespace tenants
