// SealedStream: a ByteStream whose bytes nobody else can read or change on their way (seal.h), and whose end nobody
// else can make believe. Both ends must be such. Without keys, which are for those who have a secret, it is as the one
// within.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "banyan/run/seal/seal.h"
#include "banyan/run/seal/session_keys.h"
#include "banyan/run/system/byte_stream.h"

namespace banyan::run {

// On the thread of the stream within.
class SealedStream final : public ByteStream {
 public:
  SealedStream(std::unique_ptr<ByteStream> inner, const SessionKeys& keys);
  // Sends what it has taken, and that it ends, as far as there is room.
  ~SealedStream() override;

  void watch(Ready ready) override;
  void await_room(bool on) override;
  // Takes all, unless what it took before still waits for room.
  size_t send(std::string_view bytes) override;
  // Is over when bytes came that the peer has not sealed.
  Received receive(std::span<char> buffer) override;

 private:
  bool flush();
  void await();

  const std::unique_ptr<ByteStream> inner_;
  const bool is_sealed_;
  StreamSealer sealer_;
  StreamOpener opener_;
  std::string out_, in_;  // sealed, not sent yet; opened, not received yet
  bool user_awaits_room_ = false, awaits_room_ = false;
};

}  // namespace banyan::run
