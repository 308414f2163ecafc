#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "waybill/database.h"

// STEP 5, on the other side: what arrives more than once is handled once.
namespace waybill {

// The inbox of one consumer. A message's id is written down in the transaction in which it is handled, so it is handled
// if and only if that commits.
class Inbox {
 public:
  // `consumer`: who handles; each of them handles a message once.
  explicit Inbox(std::string consumer, std::string schema = "waybill");

  // In the connection's current transaction: is it the first time? False: it has been handled; do nothing and
  // acknowledge. Of several at once one gets true, and the others wait for it to commit or roll back.
  bool first_time(Connection& connection, std::string_view message_id, std::string_view tenant = "default") const;

  // `handle` in a transaction, and begun again if it was in another's way; see with_retries(). False: it was handled
  // before.
  template <std::invocable<Connection&> Handle>
  bool once(Connection& connection, std::string_view message_id, const Handle& handle,
            std::string_view tenant = "default") const;

 private:
  std::string consumer_;
  std::string schema_;
};

}  // namespace waybill
