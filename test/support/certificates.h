#pragma once

#include <chrono>
#include <filesystem>

#include "support/child_process.h"

namespace waybill {

// Certificates for tests of TLS, made by the openssl command in a folder of their own. Every user may read the files,
// the keys too: servers run as others than we do, and nothing here is worth stealing.
class Certificates {
 public:
  struct Pair {
    std::filesystem::path certificate{};
    std::filesystem::path key{};
  };

  Certificates();

  std::filesystem::path ca() const { return path("ca.pem"); }
  // For 127.0.0.1 and localhost.
  Pair server() const { return pair("server"); }
  // For a client called `client_name` (its CN).
  Pair client() const { return pair("client"); }
  // As server(), but it was good until yesterday.
  Pair expired() const { return pair("expired"); }
  // A server's, for broker.example only.
  Pair other_host() const { return pair("other_host"); }

  // One that has signed none of the above;
  std::filesystem::path other_ca() const { return path("other_ca.pem"); }
  // and a server's and a client's certificate that it has signed, otherwise as server() and client().
  Pair other_server() const { return pair("other_server"); }
  Pair other_client() const { return pair("other_client"); }

  // For how long they are good, but the expired one.
  static constexpr std::chrono::days days{3650};
  static constexpr const char* client_name = "waybill-client";

 private:
  std::filesystem::path path(const char* file) const { return std::filesystem::path(folder_.path()) / file; }
  Pair pair(const std::string& name) const { return {path((name + ".pem").c_str()), path((name + ".key").c_str())}; }

  TmpFolder folder_;
};

}  // namespace waybill
