#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace waybill::nats {

// A key of NATS' kind: Ed25519, written in base32 with what it is for in front and a check sum at the end. Holds the
// secret until it is destroyed, and shows it to nobody.
class Nkey {
 public:
  // From the text of a seed, "SU…". Throws Error(fix_config) for what is none; it does not say what was there.
  explicit Nkey(std::string_view seed);
  ~Nkey();
  Nkey(const Nkey&) = delete;
  Nkey& operator=(const Nkey&) = delete;

  // "UC…"
  std::string public_key() const;
  // In base64 as for URLs, without padding: what a server wants as proof.
  std::string sign(std::string_view text) const;

 private:
  std::uint8_t kind_ = 0;  // Whose it is: a user's, an account's, …
  std::array<unsigned char, 32> secret_{};
};

// A file as `nsc` makes it: the user's token, and the seed of the user's key.
struct Credentials {
  std::string token{};
  std::string seed{};
};

// Both throw Error(fix_config), with the path and nothing of what is in there.
Credentials read_credentials(const std::string& path);
// A seed by itself, or between lines of dashes as in a file of credentials.
std::string read_seed(const std::string& path);

}  // namespace waybill::nats
