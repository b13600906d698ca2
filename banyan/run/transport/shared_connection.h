// SharedConnection: a stream between two processes of one host through memory that both see, beside a socket that joins
// them already.
//
// Over the socket one side offers the memory and the other says whether it can see it. Then bytes go by two rings
// (byte_ring.h), and the socket only wakes up a side that sleeps, and tells when the other is gone. If the memory
// cannot be seen (another user, ptrace_scope, a process that may not be looked into), the bytes go by the socket.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/run/system/shared_memory.h"
#include "banyan/run/transport/byte_ring.h"
#include "banyan/run/transport/tcp_connection.h"

namespace banyan::run {

class SharedConnection final : public Connection {
 public:
  static constexpr size_t kRingBytes = size_t{256} << 10;
  // Memory of both rings, which the end that offers has.
  static size_t memory_bytes(size_t ring_bytes = kRingBytes);

  // `offers`: true at one end, false at the other. Throws Error{io} when there is no memory for the rings; a
  // connection that is lost already shows with the next call.
  SharedConnection(uint32_t peer, FileDescriptor socket, bool offers, size_t ring_bytes = kRingBytes);
  ~SharedConnection() override;

  size_t write(std::span<const std::byte> head, std::span<const std::byte> body) override;
  std::span<const std::byte> peek() override;
  void consume(size_t count) override;
  size_t read(std::span<std::byte> into) override;
  int fd() const override { return socket_.fd(); }
  short before_sleep() override;
  void after_sleep() override;
  bool uses_links() const override { return state_ == State::refused; }
  size_t in_flight() const override { return state_ == State::refused ? socket_.in_flight() : 0; }

  bool is_shared() const { return state_ == State::shared; }

 private:
  enum class State : uint8_t { offering, expecting, answering, shared, refused };
  struct Offer;

  // True if bytes may go by memory or socket.
  bool is_ready();
  void send_offer();
  void take_offer();
  void send_answer();
  void take_answer();
  void share();
  void ring_bell();
  Error gone() const;

  const uint32_t peer_;
  State state_;
  TcpConnection socket_;
  SharedMemory memory_;
  size_t ring_bytes_ = 0;
  std::vector<std::byte> letter_;  // an offer, as far as it was sent or has come
  size_t letter_sent_ = 0;
  bool can_share_ = false;
  ByteRing out_, in_;
  bool is_hungry_ = false, is_stuffed_ = false;  // looked in vain since the last sleep
  bool is_gone_ = false;
};

}  // namespace banyan::run
