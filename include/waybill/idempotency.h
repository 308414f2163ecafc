#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "waybill/database.h"

// What a client asks twice under one key is done once, and answered twice.
namespace waybill {

// A request that may be a repetition. The framework's affair is to fill it in and to send the answer.
struct IdempotentRequest {
  std::string key{};          // The client's, as in the header Idempotency-Key: 1 to 255 bytes.
  std::string fingerprint{};  // Of what it asks for; see fingerprint().
  std::string tenant = "default";
};

// A fingerprint of all that makes the request what it is: method, path, body. SHA-256, in hexadecimal digits.
std::string fingerprint(std::initializer_list<std::string_view> parts);

// An answer as it was given, to be given again.
struct StoredAnswer {
  int status = 200;
  std::string content_type = "application/json";
  std::string body{};
};

struct IdempotentResult {
  enum class Kind {
    done,     // It was done now.
    again,    // It was done before: this is the answer of then.
    running,  // Somebody is at it: 409.
    other,    // The key was used for something else: 422.
  };
  Kind kind = Kind::done;
  StoredAnswer answer{};  // Of done and again. Of running and other: an answer that says so (RFC 9457).
};

class IdempotencyKeys {
 public:
  struct Options {
    std::string schema = "waybill";
    std::chrono::hours kept{24};  // How long an answer is kept.
    // How long to wait for somebody who is at it; then, or at once, `running`.
    std::chrono::milliseconds wait{0};
  };
  explicit IdempotencyKeys(Options options);

  // Runs `work` in a transaction unless it was done before. Its state, its events and its answer are committed together
  // or not at all: a crash leaves nothing. An answer with a status of 500 or more is not kept, and what `work` has
  // written is rolled back.
  IdempotentResult once(Connection& connection, const IdempotentRequest& request,
                        const std::function<StoredAnswer(Connection&)>& work) const;

 private:
  Options options_;
};

}  // namespace waybill
