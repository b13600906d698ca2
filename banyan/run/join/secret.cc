#include "banyan/run/join/secret.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>

#include "banyan/base/error.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

constexpr size_t kLongest = 4096;

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

// Why it could have been thought of by a person; empty: it could not. Of 22 random characters of base64, one time in
// 50,000 all letters are of one case.
std::string weakness_of(std::string_view text) {
  constexpr size_t kDigits = 32, kCharacters = 22, kDifferent = 8;
  const auto is = [](int (*kind)(int)) { return [kind](char c) { return kind(static_cast<unsigned char>(c)) != 0; }; };
  const bool is_hexadecimal = std::ranges::all_of(text, is(std::isxdigit));
  std::string_view body = text;
  while (body.ends_with('=')) body.remove_suffix(1);
  const bool is_base64 = std::ranges::all_of(
      body, [&](char c) { return is(std::isalnum)(c) || c == '+' || c == '/' || c == '-' || c == '_'; });
  const std::string wanted = "and has to be 32 or more hexadecimal digits, or 22 or more characters of base64";
  if (!is_base64) return "the secret is made of other characters, " + wanted;
  const bool is_too_short = body.size() < (is_hexadecimal ? kDigits : kCharacters);
  if (is_too_short) return "the secret has " + std::to_string(body.size()) + " characters, " + wanted;
  if (std::set<char>(body.begin(), body.end()).size() < kDifferent) {
    return "the secret has fewer than " + std::to_string(kDifferent) + " different characters";
  }
  const bool is_mixed = std::ranges::any_of(body, is(std::isupper)) && std::ranges::any_of(body, is(std::islower));
  return is_hexadecimal || is_mixed ? "" : "the secret has letters of one case only, as words have";
}

}  // namespace

// Whole pages, which are in no core dump, and are wiped at the end.
class Secret::Hidden {
 public:
  explicit Hidden(std::string_view key) : size_(key.size()) {
    void* const mapping = mmap(nullptr, kLongest, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) throw system_error("no memory for a secret");
    bytes_ = static_cast<char*>(mapping);
    madvise(bytes_, kLongest, MADV_DONTDUMP);  // a kernel that cannot has it in its dumps, as all else
    std::memcpy(bytes_, key.data(), key.size());
  }
  ~Hidden() {
    wipe(bytes_, size_);
    munmap(bytes_, kLongest);
  }
  Hidden(const Hidden&) = delete;
  Hidden& operator=(const Hidden&) = delete;
  std::string_view key() const { return {bytes_, size_}; }

 private:
  char* bytes_;
  const size_t size_;
};

Secret::Secret(std::string_view key) : hidden_(std::make_shared<Hidden>(key)) {}

Secret Secret::parse(std::string_view text, const std::string& source) {
  const std::string weakness = text.size() > kLongest ? "the secret is too long" : weakness_of(text);
  if (weakness.empty()) return Secret(text);
  throw Error(ErrorCode::invalid_input, weakness + "; draw one: openssl rand -hex 16", source);
}

Secret Secret::from_file(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.is_open()) throw system_error("cannot open " + path);
  expect_of_its_owner_alone(file, path);
  struct Wiped {
    std::array<char, kLongest + 2> bytes;  // a newline, and one more than there may be
    ~Wiped() { wipe(bytes.data(), bytes.size()); }
  } text;
  size_t size = 0;
  while (size < text.bytes.size()) {
    const ssize_t count = read(file.get(), text.bytes.data() + size, text.bytes.size() - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("cannot read " + path);
    if (count == 0) break;
    size += static_cast<size_t>(count);
  }
  std::string_view key(text.bytes.data(), size);
  if (key.ends_with('\n')) key.remove_suffix(1);
  return parse(key, path);
}

Secret Secret::from_environment() {
  const char* key = std::getenv("BANYAN_SECRET");
  const char* path = std::getenv("BANYAN_SECRET_FILE");
  if (key != nullptr && path != nullptr) {
    throw Error(ErrorCode::invalid_input, "BANYAN_SECRET and BANYAN_SECRET_FILE are both set; unset one of them");
  }
  if (key != nullptr) return parse(key, "BANYAN_SECRET");
  if (path == nullptr) return {};
  try {
    return from_file(path);
  } catch (const Error& error) {
    throw error.within("BANYAN_SECRET_FILE");
  }
}

Secret Secret::random() { return Secret(random_name(32)); }

std::string_view Secret::key() const { return is_empty() ? std::string_view() : hidden_->key(); }

std::string Secret::sign(std::string_view message) const {
  return hmac_sha256(hkdf_sha256(key(), "banyan secret", "signatures", 32), message);
}

std::string Secret::key_for(std::string_view call) const {
  return hkdf_sha256(key(), "banyan secret", "handshake " + std::string(call), 32);
}

}  // namespace banyan::run
