// Seals: frames of bytes that only a holder of the key of their direction can make, or read.
//
// AES-128-GCM of libcrypto, which uses what the processor has for it. The nonce is the number of the frame, which is
// not sent: a frame that was changed, lost, doubled, put elsewhere or sent back to its maker does not open. A new key
// follows from the last one every kFramesPerKey frames, long before the limits of GCM (2^32 frames); an attacker that
// learns it does not learn those before it.
//
// One thread each. Constructors and functions throw Error{io} when libcrypto cannot do its work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace banyan::run {

enum class Sealing : uint8_t {
  authenticated,  // readable for everybody (GMAC)
  encrypted,
};

namespace seal_internal {

// The keys of one direction, one after the other.
class KeyChain {
 public:
  KeyChain(std::string_view key, Sealing sealing, bool seals, uint64_t frames_per_key);
  ~KeyChain();
  KeyChain(KeyChain&&) noexcept;
  KeyChain& operator=(KeyChain&&) noexcept;

  // For the next frame: a third of what a short one costs. To be called before the frame is there, when there is time.
  void prepare();
  void begin_frame() {
    prepare();
    is_prepared_ = false;
  }
  struct Cipher;
  Cipher& cipher() { return *cipher_; }
  Sealing sealing() const { return sealing_; }

 private:
  void use_next_key();

  Sealing sealing_;
  bool seals_;
  bool is_prepared_ = false;
  uint64_t frames_per_key_, frames_ = 0;
  std::string key_, nonce_;
  std::unique_ptr<Cipher> cipher_;
};

}  // namespace seal_internal

constexpr size_t kSealSize = 16;  // that a frame is longer by
constexpr size_t kSessionKeySize = 32;
constexpr uint64_t kFramesPerKey = uint64_t{1} << 20;

class Sealer {
 public:
  Sealer(std::string_view key, Sealing sealing, uint64_t frames_per_key = kFramesPerKey)
      : chain_(key, sealing, true, frames_per_key) {}
  // For the next frame, in a moment in which nobody waits; it is done with the frame otherwise.
  void prepare() { chain_.prepare(); }
  // `head` and then `body` become one frame at `out`, which has room for both and the seal. `beside` is sealed with
  // them and not part of it.
  void seal(std::span<const std::byte> beside, std::span<const std::byte> head, std::span<const std::byte> body,
            std::byte* out);
  // The same frame left where it is: only its seal goes to `out`. For Sealing::authenticated only.
  void sign(std::span<const std::byte> beside, std::span<const std::byte> head, std::span<const std::byte> body,
            std::byte* out);

 private:
  void finish(std::byte* seal);

  seal_internal::KeyChain chain_;
};

class Opener {
 public:
  Opener(std::string_view key, Sealing sealing, uint64_t frames_per_key = kFramesPerKey)
      : chain_(key, sealing, false, frames_per_key) {}
  void prepare() { chain_.prepare(); }  // as a Sealer does
  // The next frame with its seal; what was sealed goes to `out`, which may be the frame's own place. False when nobody
  // with the key has made it: `out` means nothing then.
  bool open(std::span<const std::byte> beside, std::span<const std::byte> frame, std::byte* out);

 private:
  seal_internal::KeyChain chain_;
};

// A stream of bytes as a stream of encrypted frames, each with its size in front (four bytes, little-endian). An empty
// frame ends it, which nobody but the peer can make. With an empty key, where no secret is, bytes go as they are.
class StreamSealer {
 public:
  static constexpr size_t kMostInFrame = size_t{32} << 10;

  explicit StreamSealer(std::string_view key);
  // Appends `bytes`, sealed, to `out`.
  void seal(std::string_view bytes, std::string& out);
  // Appends that nothing follows.
  void end(std::string& out);

 private:
  void seal_frame(std::string_view piece, std::string& out);

  std::optional<Sealer> sealer_;
};

class StreamOpener {
 public:
  explicit StreamOpener(std::string_view key);
  // Takes bytes as they came, and appends what was sealed in whole frames to `out`. Throws Error{io} when they are not
  // those of the peer, or of another place in its stream.
  void open(std::string_view bytes, std::string& out);
  // True if the peer has said that nothing follows. Always true without a secret: the end of the connection has to do
  // then.
  bool has_ended() const { return has_ended_ || !opener_; }

 private:
  std::optional<Opener> opener_;
  std::string pending_;  // less than a frame
  bool has_ended_ = false;
};

}  // namespace banyan::run
