// TcpConnection: one connected socket as an ordered stream of bytes each way, with what was received and not yet taken.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/transport/connection.h"

namespace banyan {

class TcpConnection : public Connection {
 public:
  TcpConnection(uint32_t peer, FileDescriptor socket);

  size_t write(std::span<const std::byte> head, std::span<const std::byte> body) override;
  std::span<const std::byte> peek() override;
  void consume(size_t count) override;
  size_t read(std::span<std::byte> into) override;
  int fd() const override { return socket_.get(); }
  short before_sleep() override { return std::exchange(awaited_, short{0}); }
  bool uses_links() const override { return true; }

 private:
  size_t receive(std::span<std::byte> into);

  const uint32_t peer_;
  FileDescriptor socket_;
  std::unique_ptr<std::byte[]> buffer_;  // not touched before it is needed: peers may be many
  size_t begin_ = 0, end_ = 0;
  short awaited_ = 0;  // events of what moved nothing
};

}  // namespace banyan
