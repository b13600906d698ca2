// TcpConnection: one connected socket as an ordered stream of bytes each way, with what was received and not yet taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/transport/connection.h"

namespace banyan::run {

// With zero_copy, the kernel sends long bodies of write_lasting() out of this process's memory (MSG_ZEROCOPY), and says
// when it no longer reads them, which is when the other end has acknowledged them. It pays from some 10 Gb/s on, with
// network cards that can; if the kernel says that it copies all the same (loopback, veth), or if it has no room for
// more such bodies, they are sent like any others.
class TcpConnection : public Connection {
 public:
  TcpConnection(uint32_t peer, FileDescriptor socket, bool zero_copy = false);

  size_t write(std::span<const std::byte> head, std::span<const std::byte> body) override;
  size_t write_lasting(std::span<const std::byte> head, std::span<const std::byte> body) override;
  // As write(), of several pieces, at most kMostPieces.
  static constexpr size_t kMostPieces = 16;
  static constexpr size_t kBufferBytes = size_t{64} << 10;
  size_t write_pieces(std::span<const std::span<const std::byte>> pieces);
  std::span<const std::byte> peek() override;
  void consume(size_t count) override;
  size_t read(std::span<std::byte> into) override;
  int fd() const override { return socket_.get(); }
  short before_sleep() override;
  void after_sleep() override { take_releases(); }
  bool uses_links() const override { return true; }
  bool has_unsent() override;
  size_t in_flight() const override;

  // Bodies that were lent to the kernel so far. For tests.
  uint64_t lent() const { return lent_; }

 private:
  size_t send(std::span<const std::span<const std::byte>> pieces, int flags);
  size_t receive(std::span<std::byte> into);
  void take_releases();

  const uint32_t peer_;
  FileDescriptor socket_;
  std::unique_ptr<std::byte[]> buffer_;  // not touched before it is needed: peers may be many
  size_t begin_ = 0, end_ = 0;
  short awaited_ = 0;  // events of what moved nothing
  bool zero_copy_ = false;
  uint64_t lent_ = 0, released_ = 0;  // bodies
};

}  // namespace banyan::run
