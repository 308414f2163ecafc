#include "model.h"

#include <stdexcept>

#include <nlohmann/json.hpp>

namespace tenants {

using nlohmann::json;

std::string TenantCreated::to_json() const {
  return json{{"tenantId", tenant}, {"name", name}}.dump();
}
std::string TenantClosed::to_json() const {
  return json{{"tenantId", tenant}}.dump();
}
std::string ApiKeyIssued::to_json() const {
  return json{{"tenantId", tenant}, {"apiKeyId", key}, {"name", name}}.dump();
}
std::string ApiKeyRevoked::to_json() const {
  return json{{"tenantId", tenant}, {"apiKeyId", key}}.dump();
}

Tenant::Tenant(const std::string& id, std::string name, bool open, std::int64_t version)
    : AggregateRoot({.type = "tenant", .id = id, .tenant = id}, version), name_(std::move(name)), open_(open) {}

Tenant Tenant::create(const std::string& id, const std::string& name) {
  Tenant tenant(id, name, true, 0);
  tenant.record(TenantCreated{.tenant = id, .name = name});
  return tenant;
}

void Tenant::close() {
  if (!open_) return;  // No change, no event.
  open_ = false;
  record(TenantClosed{.tenant = id()});
}

ApiKey::ApiKey(waybill::StreamId stream, std::string name, std::string secret_hash, bool valid, std::int64_t version)
    : AggregateRoot(std::move(stream), version),
      name_(std::move(name)),
      secret_hash_(std::move(secret_hash)),
      valid_(valid) {}

ApiKey ApiKey::issue(const Tenant& tenant, const std::string& name, const std::string& secret_hash) {
  if (!tenant.open()) throw std::runtime_error("tenant " + tenant.id() + " is closed");
  const std::string id = waybill::EventId::make().to_string();
  ApiKey key({.type = "api-key", .id = id, .tenant = tenant.id()}, name, secret_hash, true, 0);
  key.record(ApiKeyIssued{.tenant = tenant.id(), .key = id, .name = name});
  return key;
}

void ApiKey::revoke() {
  if (!valid_) return;
  valid_ = false;
  record(ApiKeyRevoked{.tenant = tenant(), .key = id()});
}

}  // namespace tenants
