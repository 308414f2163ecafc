#pragma once

// What lies between the model and the database: whatever is loaded or added here is tracked, so that nobody can forget
// to write its events. (Entity Framework's change tracker with an interceptor, if you know that.)

#include <functional>
#include <list>
#include <string>
#include <vector>

#include "model.h"

namespace tenants {

class Session {
 public:
  // For the transaction of one tenant; see run().
  explicit Session(waybill::UnitOfWork& work) : work_(work) {}

  // References stay valid as long as the session.
  Tenant& add(Tenant tenant);
  ApiKey& add(ApiKey key);
  // Throws std::runtime_error if there is none, for whoever asks. Locked until the end of the transaction.
  Tenant& tenant(const std::string& id);
  ApiKey& api_key(const std::string& id);
  std::vector<std::reference_wrapper<ApiKey>> api_keys();

 private:
  Tenant& track(Tenant tenant);
  ApiKey& track(ApiKey key);

  waybill::UnitOfWork& work_;
  std::list<Tenant> tenants_;  // Lists: what is tracked must not move.
  std::list<ApiKey> keys_;
};

// The tenant's keys, for those who only want to see them: nothing is locked or tracked.
std::vector<ApiKey> api_keys_of(waybill::Connection& db, const std::string& tenant);

// Does it in one transaction, in which only that tenant's rows are there: states and events, or neither.
void run(waybill::Connection& db, const std::string& tenant, const std::function<void(Session&)>& doing);

}  // namespace tenants
