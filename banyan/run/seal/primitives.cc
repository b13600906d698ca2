#include "banyan/run/seal/primitives.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <memory>

#include "banyan/base/error.h"

namespace banyan::run {
namespace {

// The library would otherwise clear away its things at exit(), while the threads of communicators that nobody has
// destroyed still use them.
[[maybe_unused]] const bool is_kept_at_exit = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;

const unsigned char* bytes_of(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }
unsigned char* bytes_of(std::string& text) { return reinterpret_cast<unsigned char*>(text.data()); }

}  // namespace

void demand_of_libcrypto(bool has_worked, const char* what) {
  if (has_worked) return;
  std::array<char, 256> why{};
  ERR_error_string_n(ERR_get_error(), why.data(), why.size());
  ERR_clear_error();
  throw Error(ErrorCode::io, std::string("libcrypto could not ") + what + ": " + why.data());
}

std::string random_bytes(size_t count) {
  std::string bytes(count, '\0');
  // It fails when the kernel gives no randomness; nothing that is secret can be made then.
  demand_of_libcrypto(RAND_bytes(bytes_of(bytes), static_cast<int>(count)) == 1, "make random numbers");
  return bytes;
}

std::string sha256(std::string_view message) {
  std::string digest(SHA256_DIGEST_LENGTH, '\0');
  demand_of_libcrypto(EVP_Digest(message.data(), message.size(), bytes_of(digest), nullptr, EVP_sha256(), nullptr) == 1,
                      "make a digest");
  return digest;
}

std::string hmac_sha256(std::string_view key, std::string_view message) {
  std::string signature(SHA256_DIGEST_LENGTH, '\0');
  unsigned int size = 0;
  const unsigned char* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(message),
                                   message.size(), bytes_of(signature), &size);
  demand_of_libcrypto(made != nullptr && size == signature.size(), "sign");
  return signature;
}

std::string hkdf_sha256(std::string_view secret, std::string_view salt, std::string_view info, size_t count) {
  const std::unique_ptr<EVP_KDF, decltype(&EVP_KDF_free)> kdf(EVP_KDF_fetch(nullptr, "HKDF", nullptr), EVP_KDF_free);
  demand_of_libcrypto(kdf != nullptr, "find HKDF");
  const std::unique_ptr<EVP_KDF_CTX, decltype(&EVP_KDF_CTX_free)> context(EVP_KDF_CTX_new(kdf.get()), EVP_KDF_CTX_free);
  demand_of_libcrypto(context != nullptr, "prepare HKDF");
  const auto octets = [](const char* name, std::string_view text) {
    // It takes no null pointer, not even for nothing.
    return OSSL_PARAM_construct_octet_string(name, const_cast<char*>(text.empty() ? "" : text.data()), text.size());
  };
  std::string digest = "SHA256";
  const OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest.data(), 0),
                               octets(OSSL_KDF_PARAM_KEY, secret), octets(OSSL_KDF_PARAM_SALT, salt),
                               octets(OSSL_KDF_PARAM_INFO, info), OSSL_PARAM_construct_end()};
  std::string key(count, '\0');
  demand_of_libcrypto(EVP_KDF_derive(context.get(), bytes_of(key), key.size(), params) == 1, "derive a key");
  return key;
}

bool are_equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void wipe(void* bytes, size_t count) { OPENSSL_cleanse(bytes, count); }

std::string random_name(size_t digits) {
  std::string name;
  for (const char byte : random_bytes((digits + 1) / 2)) {
    const auto bits = static_cast<unsigned char>(byte);
    for (const int digit : {bits >> 4, bits & 15}) name += "0123456789abcdef"[digit];
  }
  return name.substr(0, digits);
}

}  // namespace banyan::run
