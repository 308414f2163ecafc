#include "net/tls.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include "waybill/error.h"

#include "base/secret_file.h"

namespace waybill::net {
namespace {

// The first thing that went wrong; the rest follows from it.
std::string library_error() {
  const unsigned long code = ERR_get_error();
  ERR_clear_error();
  const char* reason = code == 0 ? nullptr : ERR_reason_error_string(code);
  return reason ? reason : "unknown error";
}

[[noreturn]] void refuse(const std::string& text) {
  throw Error(Remedy::retry, text);
}

// Before each call whose failure is to be explained.
void forget_errors() {
  ERR_clear_error();
  errno = 0;
}

// --- A socket for OpenSSL. Its own writes with write(2), which ends the process by SIGPIPE when the other side is
// gone.

int fd_of(BIO* bio) {
  return static_cast<int>(reinterpret_cast<std::intptr_t>(BIO_get_data(bio)));
}

bool is_for_now(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

int socket_write(BIO* bio, const char* bytes, int size) {
  BIO_clear_retry_flags(bio);
  const auto count = ::send(fd_of(bio), bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL);
  if (count < 0 && is_for_now(errno)) BIO_set_retry_write(bio);
  return static_cast<int>(count);
}

int socket_read(BIO* bio, char* buffer, int size) {
  BIO_clear_retry_flags(bio);
  const auto count = ::recv(fd_of(bio), buffer, static_cast<std::size_t>(size), 0);
  if (count < 0 && is_for_now(errno)) BIO_set_retry_read(bio);
  if (count == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return static_cast<int>(count);
}

long socket_control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

// Lives as long as the process.
BIO_METHOD* socket_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "waybill socket");
    BIO_meth_set_write(made, socket_write);
    BIO_meth_set_read(made, socket_read);
    BIO_meth_set_ctrl(made, socket_control);
    return made;
  }();
  return method;
}

void take_socket(SSL* ssl, int fd) {
  BIO* const bio = BIO_new(socket_method());
  if (!bio) refuse(library_error());
  BIO_set_data(bio, reinterpret_cast<void*>(static_cast<std::intptr_t>(fd)));
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl, bio, bio);
}

// --- Who is trusted, and who we are

// A key with a passphrase would ask for it at the terminal.
int no_passphrase(char*, int, int, void*) {
  return 0;
}

void set_up(SSL_CTX* context, const TlsOptions& options) {
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, nullptr);
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const int trusting = options.ca.empty() ? SSL_CTX_set_default_verify_paths(context)
                                          : SSL_CTX_load_verify_locations(context, options.ca.c_str(), nullptr);
  if (trusting != 1) refuse(fmt::format("tls_ca = \"{}\" cannot be used: {}", options.ca, library_error()));
  if (options.certificate.empty()) return;
  if (SSL_CTX_use_certificate_chain_file(context, options.certificate.c_str()) != 1)
    refuse(fmt::format("tls_certificate = \"{}\" cannot be used: {}", options.certificate, library_error()));
  if (const auto why = exposure(options.key); !why.empty())
    refuse(fmt::format("tls_key = \"{}\" holds a secret, and {}", options.key, why));
  if (SSL_CTX_use_PrivateKey_file(context, options.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context) != 1)
    refuse(fmt::format("tls_key = \"{}\" cannot be used: {}", options.key, library_error()));
}

// The certificate must be made out to this name, or address.
void expect(SSL* ssl, const std::string& name) {
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl);
  X509_VERIFY_PARAM_set_hostflags(wanted, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
  if (X509_VERIFY_PARAM_set1_ip_asc(wanted, name.c_str()) == 1) return;
  ERR_clear_error();
  // SSL_set_tlsext_host_name, without the cast that it is made of.
  std::string copy = name;
  if (SSL_set1_host(ssl, name.c_str()) != 1 ||
      SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, copy.data()) != 1)
    refuse(library_error());
}

Time end_of(const X509* certificate) {
  std::tm end{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) != 1) refuse(library_error());
  return Time(std::chrono::seconds(::timegm(&end)));
}

}  // namespace

TlsSession::TlsSession(const TlsOptions& options, const std::string& host, int fd)
    : context_(SSL_CTX_new(TLS_client_method()), SSL_CTX_free), ssl_(nullptr, SSL_free) {
  forget_errors();
  if (!context_) refuse(library_error());
  set_up(context_.get(), options);
  ssl_.reset(SSL_new(context_.get()));
  if (!ssl_) refuse(library_error());
  take_socket(ssl_.get(), fd);
  expect(ssl_.get(), options.server_name.empty() ? host : options.server_name);
}

bool TlsSession::shake_hands() {
  forget_errors();
  const int result = SSL_connect(ssl_.get());
  if (result == 1) return true;
  const long verified = SSL_get_verify_result(ssl_.get());
  if (verified != X509_V_OK)
    refuse(
        fmt::format("its certificate is refused: {}; is it made out to this host, and its authority the one in "
                    "tls_ca?",
                    X509_verify_cert_error_string(verified)));
  check_it_is_for_now(result);
  return false;
}

Time TlsSession::trusted_until() const {
  forget_errors();
  Time until = Time::max();
  STACK_OF(X509)* const chain = SSL_get0_verified_chain(ssl_.get());
  for (int i = 0; i < sk_X509_num(chain); ++i) until = std::min(until, end_of(sk_X509_value(chain, i)));
  if (const X509* const own = SSL_get_certificate(ssl_.get())) until = std::min(until, end_of(own));
  return until;
}

std::size_t TlsSession::write(std::string_view bytes) {
  forget_errors();
  const int result =
      SSL_write(ssl_.get(), bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), INT_MAX)));
  if (result > 0) return static_cast<std::size_t>(result);
  check_it_is_for_now(result);
  return 0;
}

std::size_t TlsSession::read(std::span<char> buffer) {
  forget_errors();
  const bool waits_for_room = waits_for_room_;
  const int result =
      SSL_read(ssl_.get(), buffer.data(), static_cast<int>(std::min<std::size_t>(buffer.size(), INT_MAX)));
  if (result > 0) return static_cast<std::size_t>(result);
  check_it_is_for_now(result);
  waits_for_room_ = waits_for_room;  // What write() waits for stays as it is.
  return 0;
}

void TlsSession::check_it_is_for_now(int result) {
  const int system = errno;
  const int error = SSL_get_error(ssl_.get(), result);
  waits_for_room_ = error == SSL_ERROR_WANT_WRITE;
  if (error == SSL_ERROR_WANT_WRITE || error == SSL_ERROR_WANT_READ) return;
  if (error == SSL_ERROR_ZERO_RETURN) refuse("it has closed the connection");
  if (error == SSL_ERROR_SYSCALL && system != 0) refuse(std::strerror(system));
  refuse(fmt::format("TLS: {}", library_error()));
}

}  // namespace waybill::net
