#include "broker/nats/nkey.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "waybill/error.h"

#include "base/json_text.h"
#include "base/secret_file.h"

namespace waybill::nats {
namespace {

using Bytes = std::vector<unsigned char>;
using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;

constexpr std::string_view base32_digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
constexpr unsigned char seed_kind = 18U << 3U;  // 'S', as the first five bits.
constexpr std::size_t seed_bytes = 2 + 32 + 2;  // What it is and of whom, the seed, the check sum.
constexpr std::size_t seed_digits = 58;

[[noreturn]] void refuse(const std::string& what) {
  throw Error(Remedy::fix_config, what);
}

std::optional<Bytes> decode_base32(std::string_view text) {
  Bytes bytes;
  unsigned bits = 0;
  unsigned held = 0;
  for (const char c : text) {
    const auto digit = base32_digits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 5U | static_cast<unsigned>(digit)) & 0xFFFU;
    held += 5;
    if (held < 8) continue;
    held -= 8;
    bytes.push_back(static_cast<unsigned char>(bits >> held));
  }
  return bytes;
}

std::string encode_base32(const Bytes& bytes) {
  std::string text;
  unsigned bits = 0;
  unsigned held = 0;
  for (const unsigned char byte : bytes) {
    bits = (bits << 8U | byte) & 0xFFFU;
    for (held += 8; held >= 5;) text += base32_digits[bits >> (held -= 5) & 31U];
  }
  if (held > 0) text += base32_digits[bits << (5 - held) & 31U];
  return text;
}

// CRC-16/XMODEM.
std::uint16_t check_sum(const unsigned char* bytes, std::size_t size) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < size; ++i) {
    sum ^= static_cast<unsigned>(bytes[i]) << 8U;
    for (int bit = 0; bit < 8; ++bit) sum = (sum & 0x8000U) != 0 ? sum << 1U ^ 0x1021U : sum << 1U;
  }
  return static_cast<std::uint16_t>(sum);
}

bool is_seed(const Bytes& bytes) {
  if (bytes.size() != seed_bytes || (bytes[0] & 0xF8U) != seed_kind) return false;
  return check_sum(bytes.data(), seed_bytes - 2) == (bytes[seed_bytes - 2] | bytes[seed_bytes - 1] << 8U);
}

Key key_of(const std::array<unsigned char, 32>& secret) {
  Key key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, secret.data(), secret.size()), EVP_PKEY_free);
  if (!key) refuse("OpenSSL knows no Ed25519");
  return key;
}

// Lines without those of dashes, empty ones and the warning that nsc puts between: of a file of credentials, the token
// and the seed. A text without such lines is the only one.
std::vector<std::string> parts_of(const std::string& text) {
  std::vector<std::string> parts;
  bool framed = text.find("---") == std::string::npos;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const auto begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    line = line.substr(begin, line.find_last_not_of(" \t\r") - begin + 1);
    if (line.starts_with("---")) {
      framed = line.find("BEGIN") != std::string::npos;
    } else if (framed) {
      parts.push_back(line);
    }
  }
  return parts;
}

}  // namespace

Nkey::Nkey(std::string_view seed) {
  auto bytes = decode_base32(seed);
  const bool good = seed.size() == seed_digits && bytes && is_seed(*bytes);
  if (good) {
    kind_ = static_cast<std::uint8_t>(((*bytes)[0] & 7U) << 5U | (*bytes)[1] >> 3U);
    std::copy_n(bytes->begin() + 2, secret_.size(), secret_.begin());
  }
  if (bytes) OPENSSL_cleanse(bytes->data(), bytes->size());
  if (!good) refuse("it holds no seed of an nkey, or one that is damaged");
}

Nkey::~Nkey() {
  OPENSSL_cleanse(secret_.data(), secret_.size());
}

std::string Nkey::public_key() const {
  Bytes bytes(1 + secret_.size());
  bytes[0] = kind_;
  std::size_t size = secret_.size();
  if (EVP_PKEY_get_raw_public_key(key_of(secret_).get(), bytes.data() + 1, &size) != 1)
    refuse("the key has no public one");
  const std::uint16_t sum = check_sum(bytes.data(), bytes.size());
  bytes.push_back(static_cast<unsigned char>(sum & 0xFFU));
  bytes.push_back(static_cast<unsigned char>(sum >> 8U));
  return encode_base32(bytes);
}

std::string Nkey::sign(std::string_view text) const {
  const Key key = key_of(secret_);
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::string signature(64, '\0');
  std::size_t size = signature.size();
  if (!context || EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                     reinterpret_cast<const unsigned char*>(text.data()), text.size()) != 1)
    refuse("the key cannot sign");
  std::string encoded;
  append_base64(encoded, signature);
  std::erase(encoded, '=');
  std::replace(encoded.begin(), encoded.end(), '+', '-');
  std::replace(encoded.begin(), encoded.end(), '/', '_');
  return encoded;
}

Credentials read_credentials(const std::string& path) {
  auto parts = parts_of(read_secret_file(path));
  if (parts.size() != 2)
    refuse(
        fmt::format("{} is no file of credentials: it must have a user's token (JWT) and the seed of its key", path));
  return {.token = std::move(parts[0]), .seed = std::move(parts[1])};
}

std::string read_seed(const std::string& path) {
  const auto parts = parts_of(read_secret_file(path));
  const auto seed = std::find_if(parts.begin(), parts.end(), [](const auto& part) { return part.starts_with('S'); });
  if (seed == parts.end()) refuse(fmt::format("{} holds no seed of an nkey", path));
  return *seed;
}

}  // namespace waybill::nats
