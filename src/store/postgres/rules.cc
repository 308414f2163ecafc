#include "store/postgres/rules.h"

#include <fmt/format.h>

#include "waybill/error.h"

#include "model/rules_json.h"

namespace waybill {

int note_rules(PgConnection& connection, const PgQueries& queries, const RelayIdentity& relay,
               const std::string& destination) {
  // So many other relays may come with rules of their own between two looks.
  constexpr int tries_max = 100;
  const auto found = relay.rules.find(destination);
  const PgStatement statement{&queries.rules,
                              {destination, rules_json(found == relay.rules.end() ? Match{} : found->second)}};
  for (int i = 0; i < tries_max; ++i) {
    const PgRows rows = connection.run(statement);
    if (rows.size() > 0) return static_cast<int>(rows.integer(0, 0));
  }
  throw Error(Remedy::retry, fmt::format("postgresql: cannot enter the rules of destination '{}': other relays keep "
                                         "changing them",
                                         destination));
}

}  // namespace waybill
