#include "banyan/run/join/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

// The library would otherwise clear away its things at exit(), while the threads of communicators that nobody has
// destroyed still use them.
[[maybe_unused]] const bool is_kept_at_exit = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr) == 1;

constexpr size_t kShortest = 8, kLongest = 64 * 1024;
constexpr size_t kSignatureSize = 32;

// The permissions are those of the very file that is read, not of one that had the name before.
std::string read_key(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) throw system_error("cannot open " + path);
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw system_error("cannot look at " + path);
  if ((status.st_mode & (S_IRGRP | S_IROTH)) != 0) {
    throw Error(ErrorCode::invalid_input, "others than its owner may read " + path + "; do: chmod 600 " + path);
  }
  std::string key;
  std::array<char, 4096> buffer;
  while (true) {
    const ssize_t count = read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("cannot read " + path);
    if (count == 0) break;
    key.append(buffer.data(), static_cast<size_t>(count));
    if (key.size() > kLongest) throw Error(ErrorCode::invalid_input, path + " is too long for a secret");
  }
  if (key.ends_with('\n')) key.pop_back();
  return key;
}

Secret checked(std::string key, const std::string& source) {
  if (key.size() < kShortest) {
    throw Error(ErrorCode::invalid_input,
                "the secret has " + std::to_string(key.size()) + " bytes; it needs at least " +
                    std::to_string(kShortest) + ", better 32 that nobody can guess (openssl rand -hex 16)",
                source);
  }
  return Secret(std::move(key));
}

}  // namespace

Secret Secret::from_environment() {
  const char* key = std::getenv("BANYAN_SECRET");
  const char* path = std::getenv("BANYAN_SECRET_FILE");
  if (key != nullptr && path != nullptr) {
    throw Error(ErrorCode::invalid_input, "BANYAN_SECRET and BANYAN_SECRET_FILE are both set; unset one of them");
  }
  if (key != nullptr) return checked(key, "BANYAN_SECRET");
  if (path == nullptr) return {};
  try {
    return checked(read_key(path), path);
  } catch (const Error& error) {
    throw error.within("BANYAN_SECRET_FILE");
  }
}

Secret Secret::random() {
  std::array<unsigned char, 16> bits;
  // It fails when the kernel gives no randomness; nothing that is secret can be made then.
  if (RAND_bytes(bits.data(), static_cast<int>(bits.size())) != 1) {
    throw Error(ErrorCode::io, "the system gives no random numbers");
  }
  std::string key;
  for (const unsigned char byte : bits) {
    for (const int digit : {byte >> 4, byte & 15}) key += "0123456789abcdef"[digit];
  }
  return Secret(std::move(key));
}

std::string Secret::sign(std::string_view message) const {
  std::string signature(kSignatureSize, '\0');
  unsigned int size = 0;
  const unsigned char* made = HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
                                   reinterpret_cast<const unsigned char*>(message.data()), message.size(),
                                   reinterpret_cast<unsigned char*>(signature.data()), &size);
  CHECK(made != nullptr && size == kSignatureSize) << "HMAC-SHA256 gave " << size << " bytes";
  return signature;
}

bool Secret::is_signature(std::string_view message, std::string_view signature) const {
  const std::string right = sign(message);
  return signature.size() == right.size() && CRYPTO_memcmp(right.data(), signature.data(), right.size()) == 0;
}

}  // namespace banyan::run
