// The user service: users are registered, changed and deleted, and others hear of it through NATS. Its page is
// README.md.
//
// Everything is done by hand here: a transaction, the service's own SQL, and an event where there is something to tell.

#include <cstdlib>
#include <iostream>
#include <optional>
#include <stdexcept>

#include <nlohmann/json.hpp>

#include "waybill/enqueue.h"

namespace {

using nlohmann::json;
using waybill::Connection;

struct User {
  std::string id{};
  std::string email{};
  std::string name{};
  std::int64_t version = 0;
};

// What happened to a user, in the transaction in which it happens.
void tell(Connection& db, const std::string& what, const User& user, json data) {
  data["user_id"] = user.id;
  waybill::enqueue(db, {.topic = what,
                        .aggregate = {"user", user.id},  // what happens to one user arrives in order
                        .version = user.version,
                        .payload = data.dump(),
                        .metadata = json{{"source", "user-service"}, {"version", "1.0"}}.dump()});
}

// Its row is locked until the end of the transaction. That is what the order of its events rests on: first the lock (or
// a check of the version), then the event.
User find_for_update(Connection& db, const std::string& id) {
  const auto rows = db.run("SELECT email, name, version FROM users WHERE id = $1 FOR UPDATE", id);
  if (rows.empty()) throw std::runtime_error("user not found: " + id);
  return {.id = id, .email = rows.text(0, 0), .name = rows.text(0, 1), .version = rows.integer(0, 2)};
}

User register_user(Connection& db, const std::string& email, const std::string& name) {
  const User user{.id = waybill::EventId::make().to_string(), .email = email, .name = name, .version = 1};
  db.run("INSERT INTO users (id, email, name, version) VALUES ($1, $2, $3, $4)", user.id, email, name, user.version);
  tell(db, "user.created", user, {{"email", email}, {"name", name}});
  return user;
}

// Nothing if it stays as it is: no change, no event.
std::optional<User> change_user(Connection& db, const std::string& id, const std::string& email,
                                const std::string& name) {
  User user = find_for_update(db, id);
  json changes = json::object();
  if (email != user.email) changes["email"] = {{"from", user.email}, {"to", email}};
  if (name != user.name) changes["name"] = {{"from", user.name}, {"to", name}};
  if (changes.empty()) return std::nullopt;
  user = {.id = id, .email = email, .name = name, .version = user.version + 1};
  db.run("UPDATE users SET email = $2, name = $3, version = $4, updated_at = now() WHERE id = $1", id, email, name,
         user.version);
  tell(db, "user.updated", user, {{"changes", changes}});
  return user;
}

void delete_user(Connection& db, const std::string& id) {
  User user = find_for_update(db, id);
  ++user.version;
  db.run("DELETE FROM users WHERE id = $1", id);
  tell(db, "user.deleted", user, json::object());
}

// Each command is one transaction, begun again if the database had to end it because of another.
int run(Connection& db, const std::vector<std::string>& words) {
  const std::string command = words.empty() ? "" : words[0];
  if (command == "register" && words.size() == 3) {
    const User user =
        waybill::with_retries(db, [&](Connection& same) { return register_user(same, words[1], words[2]); });
    std::cout << user.id << '\n';
  } else if (command == "change" && words.size() == 4) {
    const auto user =
        waybill::with_retries(db, [&](Connection& same) { return change_user(same, words[1], words[2], words[3]); });
    std::cout << (user ? "changed, version " + std::to_string(user->version) : "nothing to change") << '\n';
  } else if (command == "delete" && words.size() == 2) {
    waybill::with_retries(db, [&](Connection& same) { delete_user(same, words[1]); });
    std::cout << "deleted\n";
  } else {
    std::cerr << "user-service register EMAIL NAME, change ID EMAIL NAME, delete ID\n";
    return 2;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const char* url = std::getenv("USERS_URL");
  if (url == nullptr) {
    std::cerr << "USERS_URL says where the database is, for a user with the role waybill_enqueue\n";
    return 2;
  }
  try {
    return run(*waybill::connect(url), {argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
