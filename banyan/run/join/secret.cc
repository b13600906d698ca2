#include "banyan/run/join/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cctype>
#include <cstdlib>
#include <mutex>
#include <set>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

constexpr size_t kLongest = 64 * 1024;
constexpr uint64_t kStretching = uint64_t{1} << 15;  // scrypt's N: 32 MiB

// Whoever may write to it chooses the secret. The permissions are those of the very file that is read, not of one that
// had the name before.
void expect_of_its_owner_alone(const FileDescriptor& file, const std::string& path) {
  struct stat status {};
  if (fstat(file.get(), &status) != 0) throw system_error("cannot look at " + path);
  if (status.st_uid != 0 && status.st_uid != geteuid()) {
    throw Error(ErrorCode::invalid_input, "user " + std::to_string(status.st_uid) + " owns " + path +
                                              "; it has to belong to this user or to root");
  }
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    throw Error(ErrorCode::invalid_input,
                "others than its owner may read " + path + " or write to it; do: chmod 600 " + path);
  }
}

std::string read_key(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) throw system_error("cannot open " + path);
  expect_of_its_owner_alone(file, path);
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
  const std::set<char> different(key.begin(), key.end());
  const auto refuse = [&](const std::string& why) {
    throw Error(ErrorCode::invalid_input, why + ", which others can guess; make one: openssl rand -hex 16", source);
  };
  if (key.size() < Secret::kShortest) {
    refuse("the secret has " + std::to_string(key.size()) + " characters of the " + std::to_string(Secret::kShortest) +
           " that it needs");
  }
  if (different.size() < Secret::kFewest) {
    refuse("the secret is made of " + std::to_string(different.size()) + " different characters, and needs " +
           std::to_string(Secret::kFewest));
  }
  return Secret(std::move(key));
}

bool is_drawn_by_a_machine(std::string_view key) {
  constexpr size_t kDigits = 32;
  for (const char c : key) {
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) return false;
  }
  return key.size() >= kDigits;
}

// Those that this process has stretched, of which there are few. Without a lock, which a fork might copy while it is
// held: the worst that happens is that two threads stretch the same.
struct Stretched {
  std::string key, stretched;
  const Stretched* next = nullptr;
};
std::atomic<const Stretched*> stretched_before = nullptr;

std::string stretched(const std::string& key) {
  if (key.empty() || is_drawn_by_a_machine(key)) return sha256(key);
  for (const Stretched* known = stretched_before; known != nullptr; known = known->next) {
    if (known->key == key) return known->stretched;
  }
  auto made = std::make_unique<Stretched>();
  made->key = key;
  made->stretched = scrypt(key, "banyan secret", kStretching, 32);
  made->next = stretched_before;
  while (!stretched_before.compare_exchange_weak(made->next, made.get())) {
  }
  return made.release()->stretched;  // kept for the life of the process
}

}  // namespace

struct Secret::Derived {
  std::once_flag once;
  std::string key;
  std::shared_ptr<const Password> password;
};

Secret::Secret() {
  static const auto of_none = std::make_shared<Derived>();
  derived_ = of_none;
}

Secret::Secret(std::string key) : key_(std::move(key)), derived_(std::make_shared<Derived>()) {}

const Secret::Derived& Secret::derived() const {
  std::call_once(derived_->once, [&] {
    derived_->key = stretched(key_);
    derived_->password = Password::from_key(hkdf_sha256(derived_->key, {}, "banyan password", 48));
  });
  return *derived_;
}

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
  std::string key;
  for (const char byte : random_bytes(16)) {
    const auto bits = static_cast<unsigned char>(byte);
    for (const int digit : {bits >> 4, bits & 15}) key += "0123456789abcdef"[digit];
  }
  return Secret(std::move(key));
}

std::string Secret::sign(std::string_view message) const { return hmac_sha256(derived().key, message); }

const std::shared_ptr<const Password>& Secret::password() const { return derived().password; }

}  // namespace banyan::run
