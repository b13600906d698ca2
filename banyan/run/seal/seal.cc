#include "banyan/run/seal/seal.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/seal/primitives.h"

namespace banyan::run {
namespace {

constexpr size_t kKeySize = 16, kNonceSize = 12, kSizeBytes = 4;

const unsigned char* octets(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }
unsigned char* octets(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }

void demand(int result) { demand_of_libcrypto(result == 1, "seal or open a frame"); }

std::array<std::byte, kSizeBytes> bytes_of_size(size_t size) {
  std::array<std::byte, kSizeBytes> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(size >> (8 * i));
  return bytes;
}

std::span<const std::byte> span_of(std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); }

}  // namespace

namespace seal_internal {

struct KeyChain::Cipher {
  std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)> context{EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free};

  Cipher() { demand_of_libcrypto(context != nullptr, "prepare a cipher"); }
  void note(std::span<const std::byte> bytes) {
    int count = 0;
    if (!bytes.empty()) {
      demand(EVP_CipherUpdate(context.get(), nullptr, &count, octets(bytes.data()), static_cast<int>(bytes.size())));
    }
  }
  // All of them in one go, where they are few: each go costs as much as some 100 bytes.
  void note(std::initializer_list<std::span<const std::byte>> parts) {
    std::array<std::byte, 256> together;
    size_t count = 0;
    for (const auto part : parts) count += part.size();
    if (count > together.size()) {
      for (const auto part : parts) note(part);
      return;
    }
    std::byte* end = together.data();
    for (const auto part : parts) end = std::copy(part.begin(), part.end(), end);
    note({together.data(), count});
  }
  // Also copies them: piece by piece, while they are in the nearest cache.
  void note_copy(std::span<const std::byte> bytes, std::byte* out) {
    constexpr size_t kPiece = size_t{8} << 10;
    for (size_t at = 0; at < bytes.size(); at += kPiece) {
      const std::span<const std::byte> piece = bytes.subspan(at, std::min(kPiece, bytes.size() - at));
      if (out != bytes.data()) std::memcpy(out + at, piece.data(), piece.size());
      note({out + at, piece.size()});
    }
  }
  void change(std::span<const std::byte> bytes, std::byte* out) {
    int count = 0;
    if (!bytes.empty()) {
      demand(
          EVP_CipherUpdate(context.get(), octets(out), &count, octets(bytes.data()), static_cast<int>(bytes.size())));
    }
  }
};

KeyChain::KeyChain(std::string_view key, Sealing sealing, bool seals, uint64_t frames_per_key)
    : sealing_(sealing),
      seals_(seals),
      frames_per_key_(frames_per_key),
      key_(key),
      cipher_(std::make_unique<Cipher>()) {
  CHECK_EQ(key.size(), kSessionKeySize);
  demand(EVP_CipherInit_ex2(cipher_->context.get(), EVP_aes_128_gcm(), nullptr, nullptr, seals ? 1 : 0, nullptr));
}

KeyChain::~KeyChain() = default;
KeyChain::KeyChain(KeyChain&&) noexcept = default;
KeyChain& KeyChain::operator=(KeyChain&&) noexcept = default;

// Keys of another way of sealing are others, so that no frame of one opens as one of the other.
void KeyChain::use_next_key() {
  const std::string_view way = sealing_ == Sealing::encrypted ? "encrypted" : "authenticated";
  const std::string parts =
      hkdf_sha256(key_, {}, "banyan seal " + std::string(way), kSessionKeySize + kKeySize + kNonceSize);
  key_ = parts.substr(0, kSessionKeySize);
  nonce_ = parts.substr(kSessionKeySize + kKeySize);
  const auto* const key = reinterpret_cast<const unsigned char*>(parts.data() + kSessionKeySize);
  demand(EVP_CipherInit_ex2(cipher_->context.get(), nullptr, key, nullptr, seals_ ? 1 : 0, nullptr));
  frames_ = 0;
}

void KeyChain::prepare() {
  if (std::exchange(is_prepared_, true)) return;
  if (nonce_.empty() || frames_ == frames_per_key_) use_next_key();
  std::array<unsigned char, kNonceSize> nonce;
  std::memcpy(nonce.data(), nonce_.data(), nonce.size());
  for (size_t i = 0; i < sizeof frames_; ++i) {
    nonce[kNonceSize - 1 - i] = static_cast<unsigned char>(nonce[kNonceSize - 1 - i] ^ (frames_ >> (8 * i)));
  }
  ++frames_;
  demand(EVP_CipherInit_ex2(cipher_->context.get(), nullptr, nullptr, nonce.data(), seals_ ? 1 : 0, nullptr));
}

}  // namespace seal_internal

void Sealer::seal(std::span<const std::byte> beside, std::span<const std::byte> head, std::span<const std::byte> body,
                  std::byte* out) {
  chain_.begin_frame();
  auto& cipher = chain_.cipher();
  cipher.note(beside);
  std::byte* end = out;
  for (const std::span<const std::byte> part : {head, body}) {
    if (part.empty()) continue;
    if (chain_.sealing() == Sealing::encrypted) {
      cipher.change(part, end);
    } else {
      cipher.note_copy(part, end);
    }
    end += part.size();
  }
  finish(end);
}

void Sealer::sign(std::span<const std::byte> beside, std::span<const std::byte> head, std::span<const std::byte> body,
                  std::byte* out) {
  CHECK(chain_.sealing() == Sealing::authenticated);
  chain_.begin_frame();
  chain_.cipher().note({beside, head, body});
  finish(out);
}

void Sealer::finish(std::byte* seal) {
  EVP_CIPHER_CTX* const context = chain_.cipher().context.get();
  int count = 0;
  demand(EVP_EncryptFinal_ex(context, octets(seal), &count));
  demand(EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, kSealSize, seal));
}

bool Opener::open(std::span<const std::byte> beside, std::span<const std::byte> frame, std::byte* out) {
  if (frame.size() < kSealSize) return false;
  const std::span<const std::byte> text = frame.first(frame.size() - kSealSize);
  chain_.begin_frame();
  auto& cipher = chain_.cipher();
  constexpr size_t kShort = 256;
  if (chain_.sealing() == Sealing::encrypted) {
    cipher.note(beside);
    cipher.change(text, out);
  } else if (text.size() <= kShort) {
    cipher.note({beside, text});
    if (out != text.data()) std::memcpy(out, text.data(), text.size());
  } else {
    cipher.note(beside);
    cipher.note_copy(text, out);
  }
  demand(EVP_CIPHER_CTX_ctrl(cipher.context.get(), EVP_CTRL_AEAD_SET_TAG, kSealSize,
                             const_cast<std::byte*>(frame.data() + text.size())));
  std::array<unsigned char, kSealSize> rest;
  int count = 0;
  return EVP_DecryptFinal_ex(cipher.context.get(), rest.data(), &count) == 1;
}

StreamSealer::StreamSealer(std::string_view key) {
  if (!key.empty()) sealer_.emplace(key, Sealing::encrypted);
}

void StreamSealer::seal(std::string_view bytes, std::string& out) {
  if (!sealer_) out += bytes;
  for (; sealer_ && !bytes.empty(); bytes.remove_prefix(std::min(bytes.size(), kMostInFrame))) {
    seal_frame(bytes.substr(0, kMostInFrame), out);
  }
}

void StreamSealer::end(std::string& out) {
  if (sealer_) seal_frame({}, out);
}

void StreamSealer::seal_frame(std::string_view piece, std::string& out) {
  const auto size = bytes_of_size(piece.size());
  const size_t at = out.size();
  out.resize(at + size.size() + piece.size() + kSealSize);
  auto* const place = reinterpret_cast<std::byte*>(out.data() + at);
  std::memcpy(place, size.data(), size.size());
  sealer_->seal(size, {}, span_of(piece), place + size.size());
}

StreamOpener::StreamOpener(std::string_view key) {
  if (!key.empty()) opener_.emplace(key, Sealing::encrypted);
}

void StreamOpener::open(std::string_view bytes, std::string& out) {
  if (!opener_) {
    out += bytes;
    return;
  }
  const auto refuse = [] { throw Error(ErrorCode::io, "bytes were changed on their way"); };
  pending_ += bytes;
  size_t done = 0;
  while (pending_.size() - done >= kSizeBytes) {
    size_t size = 0;
    for (size_t i = 0; i < kSizeBytes; ++i) size |= size_t{static_cast<unsigned char>(pending_[done + i])} << (8 * i);
    if (has_ended_ || size > StreamSealer::kMostInFrame) refuse();
    if (pending_.size() - done < kSizeBytes + size + kSealSize) break;
    const std::string_view frame = std::string_view(pending_).substr(done + kSizeBytes, size + kSealSize);
    const size_t at = out.size();
    out.resize(at + size);
    const bool is_right = opener_->open(span_of(std::string_view(pending_).substr(done, kSizeBytes)), span_of(frame),
                                        reinterpret_cast<std::byte*>(out.data() + at));
    if (!is_right) {
      out.resize(at);
      refuse();
    }
    has_ended_ = size == 0;
    done += kSizeBytes + size + kSealSize;
  }
  pending_.erase(0, done);
}

}  // namespace banyan::run
