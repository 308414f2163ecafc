#pragma once

// Tenants and their API keys, and what happens to them. Nothing here knows of outboxes or brokers: an aggregate records
// what has happened to it, and that is all.

#include <string>
#include <string_view>

#include "waybill/unit_of_work.h"

namespace tenants {

struct TenantCreated {
  static constexpr std::string_view type_name = "tenant.created";
  std::string tenant{};
  std::string name{};
  std::string to_json() const;
};
struct TenantClosed {
  static constexpr std::string_view type_name = "tenant.closed";
  std::string tenant{};
  std::string to_json() const;
};
// Neither tells the secret, nor its hash: what an event says is public.
struct ApiKeyIssued {
  static constexpr std::string_view type_name = "api-key.issued";
  std::string tenant{};
  std::string key{};
  std::string name{};
  std::string to_json() const;
};
struct ApiKeyRevoked {
  static constexpr std::string_view type_name = "api-key.revoked";
  std::string tenant{};
  std::string key{};
  std::string to_json() const;
};

class Tenant : public waybill::AggregateRoot {
 public:
  static Tenant create(const std::string& id, const std::string& name);
  // As it was saved.
  Tenant(const std::string& id, std::string name, bool open, std::int64_t version);

  void close();

  const std::string& id() const { return stream().id; }
  const std::string& name() const { return name_; }
  bool open() const { return open_; }

 private:
  std::string name_;
  bool open_;
};

class ApiKey : public waybill::AggregateRoot {
 public:
  // `secret_hash`: of what the client will show; we need not know it.
  static ApiKey issue(const Tenant& tenant, const std::string& name, const std::string& secret_hash);
  ApiKey(waybill::StreamId stream, std::string name, std::string secret_hash, bool valid, std::int64_t version);

  void revoke();

  const std::string& id() const { return stream().id; }
  const std::string& tenant() const { return stream().tenant; }
  const std::string& name() const { return name_; }
  const std::string& secret_hash() const { return secret_hash_; }
  bool valid() const { return valid_; }

 private:
  std::string name_;
  std::string secret_hash_;
  bool valid_;
};

}  // namespace tenants
