#pragma once

#include <chrono>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "waybill/api.h"
#include "waybill/database.h"

// What a client asks twice under one key is done once, and answered twice.
namespace WAYBILL_API waybill {

// A request that may be a repetition. The framework's affair is to fill it in and to send the answer.
struct IdempotentRequest {
  std::string key{};          // The client's, as in the header Idempotency-Key: 1 to 255 bytes.
  std::string fingerprint{};  // Of what it asks for, 1 to 255 bytes; see fingerprint().
  std::string tenant{};       // Keys of different tenants are different keys. None: the user's own, or else `default`.
};

// A fingerprint of all that makes the request what it is: method, path, body. SHA-256, in hexadecimal digits.
std::string fingerprint(std::initializer_list<std::string_view> parts);

// An answer as it was given, to be given again.
struct StoredAnswer {
  int status = 200;
  std::string content_type = "application/json";  // At most 255 bytes.
  std::string body{};                             // At most 1 MiB.
};

struct IdempotentResult {
  enum class Kind {
    done,     // It was done now.
    again,    // It was done before: this is the answer of then.
    failed,   // Its answer is 500 or more: all of it was rolled back, and a repetition is the first again.
    running,  // Somebody is at it: 409. To be asked again later.
    other,    // The key was used for something else: 422.
  };
  Kind kind = Kind::done;
  StoredAnswer answer{};  // Of running and other: an answer that says so (RFC 9457).
};

// Idempotency keys. Constant once made: any number of threads may share it, each with its own connection.
//
// That a request is done once rests on a unique index. Whoever is at it has a lock besides, of its transaction, so that
// others need not do the work to find out; two keys may have the same lock by chance, and are then `running` to each
// other for a while, but never get each other's answer.
class IdempotencyKeys {
 public:
  struct Options {
    std::string schema = "waybill";
    std::chrono::seconds kept{std::chrono::hours(24)};  // How long an answer is; 1 s to 10 years.
    // How long to wait for somebody who is at it, up to a minute; then, or at once, `running`. SQLite: as any writer
    // waits for another at least, which one cannot tell from somebody who is at it.
    std::chrono::milliseconds wait{0};
    int attempts = RetryOptions{}.attempts;
    Isolation isolation = Isolation::read_committed;
  };
  IdempotencyKeys() : IdempotencyKeys(Options{}) {}
  // Throws Error(fix_config) if an option is out of range.
  explicit IdempotencyKeys(Options options);

  // Runs `work` in a transaction of the request's tenant unless it was done before. Its state, its events and its
  // answer are committed together or not at all: a crash leaves nothing, and so does an exception. What was in
  // another's way is begun again, whole, as with_retries() does. An answer of less than 500 is kept, and what `work`
  // has written with it. Throws Error(fix_input) if request or answer break a limit; Error(unknown) if the answer to
  // COMMIT was lost and it could not be found out: to ask again under the same key does.
  IdempotentResult once(Connection& connection, const IdempotentRequest& request,
                        const std::function<StoredAnswer(Connection&)>& work) const;

  // The same in two steps, for those who have a transaction, and before anything else in it. Nothing: it is the first;
  // do it, end() with its answer, commit. Otherwise that is the result, and there is nothing to do.
  std::optional<IdempotentResult> begin(Connection& connection, const IdempotentRequest& request) const;
  // Throws Collision if somebody was faster nevertheless.
  void end(Connection& connection, const IdempotentRequest& request, const StoredAnswer& answer) const;

 private:
  IdempotentResult attempt(Connection& connection, const IdempotentRequest& request,
                           const std::function<StoredAnswer(Connection&)>& work) const;
  std::optional<IdempotentResult> find(Connection& connection, const IdempotentRequest& request) const;

  Options options_;
};

}  // namespace waybill
