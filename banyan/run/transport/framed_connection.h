// FramedConnection: the common part of connections whose bytes go in frames over another connection. Bytes that were
// taken wait here as whole frames until that one has room. Bytes that have come are shown frame by frame. A class for
// each kind adds what a frame carries besides its bytes: checked_connection.h a digest, sealed_connection.h a seal.
#pragma once

#include <memory>

#include "banyan/run/transport/connection.h"

namespace banyan::run {

class FramedConnection : public Connection {
 public:
  static constexpr size_t kFrameBytes = size_t{32} << 10;  // the most of a frame, besides what the kind adds

  void consume(size_t count) final;
  int fd() const final { return inner_->fd(); }
  short before_sleep() final;
  void after_sleep() final;
  bool uses_links() const final { return inner_->uses_links(); }
  bool has_unsent() final { return !flush(); }
  size_t in_flight() const final;

 protected:
  // Keeps at most `out_bytes` that were taken.
  FramedConnection(std::unique_ptr<Connection> inner, size_t out_bytes)
      : inner_(std::move(inner)), out_(std::make_unique_for_overwrite<std::byte[]>(out_bytes)) {}

  // The bytes of the next frame, when the first `taken` of all are in frames already.
  struct Part {
    std::span<const std::byte> head, body;
    size_t size() const { return head.size() + body.size(); }
  };
  static Part next_part(std::span<const std::byte> head, std::span<const std::byte> body, size_t taken);

  // True if all that was taken is on its way.
  bool flush();
  // For callers that have taken bytes, and cannot say so by an error. The next call finds out what is wrong.
  bool try_to_flush();
  // As read(), of what peek() shows: one frame at most, since to look for the next might throw, and these bytes have
  // come.
  size_t take(std::span<const std::byte> arrived, std::span<std::byte> into);

  const std::unique_ptr<Connection> inner_;
  const std::unique_ptr<std::byte[]> out_;  // whole frames, or what is left of them
  size_t out_size_ = 0, out_sent_ = 0;
  std::span<const std::byte> opened_;  // of the last frame that has come, not consumed yet
};

}  // namespace banyan::run
