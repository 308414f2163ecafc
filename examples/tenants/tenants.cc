// Tenants and their API keys, as a command line; its page is README.md.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <random>
#include <sstream>

#include "waybill/idempotency.h"

#include "session.h"

namespace {

using tenants::ApiKey;
using tenants::Session;
using tenants::Tenant;
using waybill::Connection;
using Words = std::vector<std::string>;

std::string new_secret() {
  std::random_device random;
  std::ostringstream secret;
  secret << std::hex << std::setfill('0');
  for (int i = 0; i < 8; ++i) secret << std::setw(8) << random();
  return secret.str();
}

void create_tenant(Connection& db, const std::string& tenant, const Words& words) {
  tenants::run(db, tenant, [&](Session& session) { session.add(Tenant::create(tenant, words.at(0))); });
  std::cout << "created " << tenant << '\n';
}

void issue_key(Connection& db, const std::string& tenant, const Words& words) {
  const std::string secret = new_secret();
  std::string id;
  tenants::run(db, tenant, [&](Session& session) {
    id = session.add(ApiKey::issue(session.tenant(tenant), words.at(0), waybill::fingerprint({secret}))).id();
  });
  std::cout << id << ' ' << secret << '\n';
}

void revoke_key(Connection& db, const std::string& tenant, const Words& words) {
  tenants::run(db, tenant, [&](Session& session) { session.api_key(words.at(0)).revoke(); });
  std::cout << "revoked " << words.at(0) << '\n';
}

// Several aggregates, one transaction.
void close_tenant(Connection& db, const std::string& tenant, const Words&) {
  tenants::run(db, tenant, [&](Session& session) {
    session.tenant(tenant).close();
    for (ApiKey& key : session.api_keys()) key.revoke();
  });
  std::cout << "closed " << tenant << '\n';
}

void list_keys(Connection& db, const std::string& tenant, const Words&) {
  for (const ApiKey& key : tenants::api_keys_of(db, tenant))
    std::cout << key.tenant() << ' ' << key.name() << ' ' << (key.valid() ? "valid" : "revoked") << '\n';
}

struct Command {
  std::string_view name{};
  std::size_t words = 0;  // after the tenant
  void (*run)(Connection&, const std::string& tenant, const Words&) = nullptr;
};
constexpr std::array commands{Command{"create", 1, create_tenant}, Command{"issue", 1, issue_key},
                              Command{"revoke", 1, revoke_key}, Command{"close", 0, close_tenant},
                              Command{"keys", 0, list_keys}};

}  // namespace

int main(int argc, char** argv) {
  const Words words(argv + 1, argv + argc);
  const auto* const command = std::find_if(commands.begin(), commands.end(), [&](const Command& known) {
    return words.size() == 2 + known.words && words[0] == known.name;
  });
  if (command == commands.end()) {
    std::cerr << "tenants create|issue TENANT NAME, revoke TENANT KEY, close|keys TENANT\n";
    return 2;
  }
  const char* url = std::getenv("TENANTS_URL");
  if (url == nullptr) {
    std::cerr << "TENANTS_URL says where the database is, for a user with the role waybill_service\n";
    return 2;
  }
  try {
    // Where it comes from, and what else follows from the same command, is in the metadata of every event.
    const waybill::EventContextScope because(
        {.source = "tenants", .correlation_id = waybill::EventId::make().to_string()});
    command->run(*waybill::connect(url), words[1], Words(words.begin() + 2, words.end()));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
