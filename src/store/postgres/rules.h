#pragma once

#include <string>

#include "waybill/store.h"

#include "store/postgres/database.h"

namespace waybill {

// The number under which the relay's rules for a destination are in the table `rules`, where it is entered if it is not
// there: what cursor rows refer to. A statement of its own: it is committed when this returns.
int note_rules(PgConnection& connection, const PgQueries& queries, const RelayIdentity& relay,
               const std::string& destination);

}  // namespace waybill
