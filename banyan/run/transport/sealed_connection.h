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
#include "banyan/run/transport/tcp_connection.h"

namespace banyan::run {

class SealedConnection final : public Connection {
 public:
  static constexpr size_t kFrameBytes = size_t{32} << 10;
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
  void consume(size_t count) override;
  size_t read(std::span<std::byte> into) override;
  int fd() const override { return inner_->fd(); }
  short before_sleep() override;
  void after_sleep() override;
  bool uses_links() const override { return inner_->uses_links(); }
  bool has_unsent() override;
  size_t in_flight() const override;

 private:
  // The bytes of the next frame, when the first `taken` of all are in frames already.
  struct Part {
    std::span<const std::byte> head, body;
    size_t size() const { return head.size() + body.size(); }
  };
  static Part next_part(std::span<const std::byte> head, std::span<const std::byte> body, size_t taken);
  size_t write_encrypted(std::span<const std::byte> head, std::span<const std::byte> body);
  size_t write_signed(std::span<const std::byte> head, std::span<const std::byte> body);
  void keep_rest(std::span<const std::span<const std::byte>> pieces, size_t sent);
  bool flush();
  bool try_to_flush();
  // The next frame, without its head, once it has come as a whole; empty before.
  std::span<std::byte> next_frame();
  void open(std::span<std::byte> frame, std::byte* into);

  const uint32_t peer_;
  const Sealing sealing_;
  const std::unique_ptr<TcpConnection> inner_;
  Sealer sealer_;
  Opener opener_;

  std::unique_ptr<std::byte[]> out_;  // whole frames, or what is left of them
  size_t out_size_ = 0, out_sent_ = 0;

  std::unique_ptr<std::byte[]> in_;
  size_t in_begin_ = 0, in_end_ = 0;   // of what came and was not opened
  std::span<const std::byte> opened_;  // of the last frame, not consumed yet; in in_
};

}  // namespace banyan::run
