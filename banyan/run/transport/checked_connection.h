// CheckedConnection: a connection whose bytes are checked against what was sent. TCP's own sum has 16 bits and is made
// anew by what stands between; some network cards and switches damage what they carry.
//
// Both ends must be such. After a greeting bytes go in frames of at most kFrameBytes, each with an XXH3 digest of them
// seeded with the number of the frame, so that what is damaged, lost, doubled or out of order is found before anybody
// sees it. Costs a copy and a digest at each end. An end that writes nothing sends no greeting either: the other end
// may never read, and a socket that is closed with unread bytes takes back what it has sent.
#pragma once

#include <memory>

#include "banyan/run/transport/connection.h"

namespace banyan::run {

class CheckedConnection final : public Connection {
 public:
  static constexpr size_t kFrameBytes = size_t{32} << 10;

  CheckedConnection(uint32_t peer, std::unique_ptr<Connection> inner);

  // Take and show whole frames only, besides what the inner connection throws: Error{io} when bytes were damaged,
  // naming the peer; Error{mismatch} when it does not check.
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
  struct Header {
    uint32_t size = 0, digest = 0;
  };
  struct Frame {
    Header header;
    std::byte bytes[kFrameBytes];
  };

  bool flush();
  bool try_to_flush();
  bool receive(std::byte* into, size_t from, size_t size);

  const uint32_t peer_;
  const std::unique_ptr<Connection> inner_;

  std::unique_ptr<Frame> out_;
  size_t out_size_ = 0, out_sent_ = 0;  // of header and bytes
  uint64_t frames_out_ = 0;

  std::unique_ptr<Frame> in_;
  size_t in_came_ = 0;   // of header and bytes
  size_t consumed_ = 0;  // of bytes, once the frame is complete
  bool is_complete_ = false;
  uint64_t frames_in_ = 0;
};

}  // namespace banyan::run
