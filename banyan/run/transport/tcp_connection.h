// TcpConnection: one connected socket as an ordered stream of bytes each way, with what was received and not yet taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan {

// Error{peer_lost} for what happens when a process is gone, Error{io} else; names the peer.
Error connection_error(uint32_t peer, int error);

// None of its functions blocks. All throw connection_error().
class TcpConnection {
 public:
  TcpConnection() = default;
  TcpConnection(uint32_t peer, FileDescriptor socket);

  size_t write(std::span<const std::byte> head, std::span<const std::byte> body);
  std::span<const std::byte> peek();
  void consume(size_t count);
  size_t read(std::span<std::byte> into);

  // What moved nothing since the last time this was asked, as poll(2) calls it.
  short take_awaited();
  bool is_open() const { return socket_.is_open(); }
  int fd() const { return socket_.get(); }

 private:
  size_t receive(std::span<std::byte> into);

  uint32_t peer_ = 0;
  FileDescriptor socket_;
  std::unique_ptr<std::byte[]> buffer_;  // not touched before it is needed: peers may be many
  size_t begin_ = 0, end_ = 0;
  short awaited_ = 0;
};

}  // namespace banyan
