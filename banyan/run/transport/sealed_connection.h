// SealedConnection: a connection whose bytes nobody but its two ends can change on their way, or read, too. Data that
// is changed, lost, doubled, put elsewhere or sent back is found before anybody sees it, and ends the connection.
//
// Both ends must be such, in the same way and with the keys of one handshake (seal/seal.h). Bytes go in frames of at
// most kFrameBytes, each with its size in front and a seal behind it. Costs one pass of AES-GCM at each end, or one of
// GMAC, and a copy where it arrives. It needs no checksums beside it.
#pragma once

#include <memory>

#include "banyan/run/seal/seal.h"
#include "banyan/run/seal/session_keys.h"
#include "banyan/run/transport/framed_connection.h"
#include "banyan/run/transport/tcp_connection.h"

namespace banyan::run {

class SealedConnection final : public FramedConnection {
 public:
  static constexpr size_t kHeadBytes = 4;
  static constexpr size_t kSealedBytes = kHeadBytes + kFrameBytes + kSealSize;
  // Several frames are sent, and received, by one call of the system.
  static constexpr size_t kFramesAtOnce = 4;
  static constexpr size_t kBufferBytes = kFramesAtOnce * kSealedBytes;  // in each direction

  SealedConnection(uint32_t peer, std::unique_ptr<TcpConnection> inner, const SessionKeys& keys, Sealing sealing,
                   uint64_t frames_per_key = kFramesPerKey);

  // Take and show whole frames only, besides what the inner connection throws: Error{io} when bytes came that the peer
  // has not sealed so, naming it.
  size_t write(std::span<const std::byte> head, std::span<const std::byte> body) override;
  std::span<const std::byte> peek() override;
  size_t read(std::span<std::byte> into) override;

 private:
  size_t write_encrypted(std::span<const std::byte> head, std::span<const std::byte> body);
  size_t write_signed(std::span<const std::byte> head, std::span<const std::byte> body);
  void keep_rest(std::span<const std::span<const std::byte>> pieces, size_t sent);
  // The next frame, without its head, once it has come as a whole; empty before.
  std::span<std::byte> next_frame();
  void open(std::span<std::byte> frame, std::byte* into);

  const uint32_t peer_;
  const Sealing sealing_;
  TcpConnection& socket_;  // the inner connection
  Sealer sealer_;
  Opener opener_;

  std::unique_ptr<std::byte[]> in_;
  size_t in_begin_ = 0, in_end_ = 0;  // of what came and was not opened
};

}  // namespace banyan::run
