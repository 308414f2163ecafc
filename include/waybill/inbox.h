#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "waybill/api.h"
#include "waybill/database.h"

// STEP 5, on the other side: what arrives more than once is handled once.
namespace WAYBILL_API waybill {

// The inbox of one consumer. A message's id is written down in the transaction in which it is handled, so it is handled
// if and only if that commits. It is remembered as long as cleaning leaves it there (`retention_inbox`), which must be
// longer than anybody may send it again. Constant once made: any number of threads may share it.
class Inbox {
 public:
  // `consumer`: who handles, 1 to 255 bytes; each of them handles a message once.
  explicit Inbox(std::string consumer, std::string schema = "waybill");

  // In the connection's current transaction: is it the first time? False: it has been handled; do nothing and
  // acknowledge. Of several at once one gets true, and the others wait for it to commit or roll back; above READ
  // COMMITTED they may get a Collision instead. Ask before anything else is locked: those who wait then hold nothing
  // that the one they wait for may need. Several in one transaction: in the order of their ids.
  // `message_id`: 1 to 512 bytes. No tenant: the one of the transaction, or else `default`.
  // Throws Error(fix_input) without a transaction: the message would be handled for good before it is.
  bool first_time(Connection& connection, std::string_view message_id, std::string_view tenant = {}) const;

  // `handle` in a transaction, and begun again if it was in another's way; see with_retries(). False: it was handled
  // before. What `handle` throws rolls it back, and the message may come again. So it may after Error(unknown): if it
  // was committed after all, it is not handled again.
  template <std::invocable<Connection&> Handle>
  bool once(Connection& connection, std::string_view message_id, const Handle& handle,
            const RetryOptions& options = {}) const {
    return with_retries(
        connection,
        [&](Connection& same) {
          const bool first = first_time(same, message_id, options.transaction.tenant);
          if (first) handle(same);
          return first;
        },
        options);
  }

 private:
  std::string consumer_;
  std::string schema_;
};

}  // namespace waybill
