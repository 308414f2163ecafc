#include "waybill/idempotency.h"

#include <array>
#include <utility>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "database/sql_text.h"
#include "service/checks.h"
#include "service_sql.h"

namespace waybill {
namespace {

using Kind = IdempotentResult::Kind;
using namespace std::chrono_literals;

constexpr std::size_t key_bytes_max = 255;
constexpr std::size_t fingerprint_bytes_max = 255;
constexpr std::size_t tenant_bytes_max = 255;
constexpr std::size_t content_type_bytes_max = 255;
constexpr std::size_t body_bytes_max = std::size_t{1024} * 1024;
constexpr auto kept_max = 24h * 3650;
constexpr auto wait_max = 1min;
constexpr int least_failure = 500;

void check(const IdempotentRequest& request) {
  check_text("the idempotency key", request.key, 1, key_bytes_max);
  check_text("the request's fingerprint", request.fingerprint, 1, fingerprint_bytes_max);
  check_text("the request's tenant", request.tenant, 0, tenant_bytes_max);
}

void check(const StoredAnswer& answer) {
  if (answer.status < 100 || answer.status >= least_failure)
    throw Error(Remedy::fix_input, fmt::format("an answer with the status {} cannot be kept; 100 to {} are allowed",
                                               answer.status, least_failure - 1));
  check_text("the answer's content type", answer.content_type, 0, content_type_bytes_max);
  if (answer.body.size() > body_bytes_max)
    throw Error(Remedy::fix_input,
                fmt::format("an answer of {} bytes cannot be kept, at most {} are allowed; answer with a reference",
                            answer.body.size(), body_bytes_max));
}

// In hexadecimal digits.
std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  if (EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) != 1)
    throw Error(Remedy::fix_config, "OpenSSL has no SHA-256");
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + size, ""));
}

IdempotentResult refusal(Kind kind, int status, std::string_view title, std::string_view detail) {
  return {.kind = kind,
          .answer = {.status = status,
                     .content_type = "application/problem+json",
                     .body = fmt::format(R"({{"title":"{}","status":{},"detail":"{}"}})", title, status, detail)}};
}

IdempotentResult still_running() {
  return refusal(Kind::running, 409, "Conflict",
                 "A request with this Idempotency-Key is being carried out. Repeat it later.");
}

IdempotentResult used_for_another() {
  return refusal(Kind::other, 422, "Unprocessable Content",
                 "This Idempotency-Key was used for another request. Use a new one.");
}

// Of a row with outcome, status, content type and body. Nothing: it is the first.
std::optional<IdempotentResult> result_of(const Rows& rows) {
  if (rows.empty() || rows.text(0, 0) == "first") return std::nullopt;
  if (rows.text(0, 0) == "running") return still_running();
  if (rows.text(0, 0) == "other") return used_for_another();
  return IdempotentResult{.kind = Kind::again,
                          .answer = {.status = static_cast<int>(rows.integer(0, 1)),
                                     .content_type = rows.text(0, 2),
                                     .body = from_hexadecimal(rows.text(0, 3))}};
}

// SQLite: whoever writes is in the way of all others, and may be at this very request. False: still, after `wait`.
bool get_turn(std::optional<Transaction>& transaction, Connection& connection, const TransactionOptions& options,
              std::chrono::milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  for (int attempt = 1;; ++attempt) {
    try {
      transaction.emplace(connection, options);
      return true;
    } catch (const Collision&) {
      if (std::chrono::steady_clock::now() >= deadline) return false;
    }
    detail::wait_before_attempt(attempt);
  }
}

}  // namespace

// Each part with its length: what is moved from one to the next makes another request.
std::string fingerprint(std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const std::string_view part : parts) all += fmt::format("{}:{}", part.size(), part);
  return sha256(all);
}

IdempotencyKeys::IdempotencyKeys(Options options) : options_(std::move(options)) {
  check_schema(options_.schema);
  if (options_.kept < 1s || options_.kept > kept_max)
    throw Error(Remedy::fix_config, "idempotency keys: answers are kept for 1 second to 10 years");
  if (options_.wait < 0ms || options_.wait > wait_max)
    throw Error(Remedy::fix_config, "idempotency keys: nobody waits longer than a minute for another's answer");
}

IdempotentResult IdempotencyKeys::once(Connection& connection, const IdempotentRequest& request,
                                       const std::function<StoredAnswer(Connection&)>& work) const {
  check(request);
  return detail::until_it_goes_through(options_.attempts, [&] { return attempt(connection, request, work); });
}

IdempotentResult IdempotencyKeys::attempt(Connection& connection, const IdempotentRequest& request,
                                          const std::function<StoredAnswer(Connection&)>& work) const {
  if (connection.dialect() == Dialect::sqlite)  // What is answered need not wait for whoever writes.
    if (auto found = find(connection, request)) return *std::move(found);
  std::optional<Transaction> transaction;
  if (!get_turn(transaction, connection, {.isolation = options_.isolation, .tenant = request.tenant}, options_.wait))
    return still_running();
  if (auto known = begin(connection, request)) return *std::move(known);
  StoredAnswer answer = work(connection);
  if (answer.status >= least_failure) return {.kind = Kind::failed, .answer = std::move(answer)};
  end(connection, request, answer);
  transaction->commit();
  return {.kind = Kind::done, .answer = std::move(answer)};
}

std::optional<IdempotentResult> IdempotencyKeys::begin(Connection& connection, const IdempotentRequest& request) const {
  check(request);
  check_transaction(connection, "idempotency keys");
  if (connection.dialect() == Dialect::sqlite) return find(connection, request);
  return result_of(connection.run(filled_in(service_sql::idempotency_begin, "schema", options_.schema), request.key,
                                  request.fingerprint, or_null(request.tenant),
                                  fmt::format("{} milliseconds", options_.wait.count())));
}

void IdempotencyKeys::end(Connection& connection, const IdempotentRequest& request, const StoredAnswer& answer) const {
  check(request);
  check(answer);
  check_transaction(connection, "idempotency keys");
  const bool sqlite = connection.dialect() == Dialect::sqlite;
  const std::string sql = sqlite ? std::string(service_sql::idempotency_end_sqlite)
                                 : filled_in(service_sql::idempotency_end, "schema", options_.schema);
  const Rows rows =
      connection.run(sql, request.key, request.fingerprint, answer.status, bytes(answer.body), answer.content_type,
                     fmt::format("{} seconds", options_.kept.count()), or_null(request.tenant));
  if (sqlite && rows.affected() == 0)
    throw Collision("the request was answered meanwhile: begin the transaction again");
  if (!sqlite && !rows.null(0, 1)) connection.note_transaction(rows.text(0, 1));
}

std::optional<IdempotentResult> IdempotencyKeys::find(Connection& connection, const IdempotentRequest& request) const {
  return result_of(
      connection.run(service_sql::idempotency_find_sqlite, request.key, request.fingerprint, or_null(request.tenant)));
}

}  // namespace waybill
