// Transport: how one rank's bytes reach its peers. The engine's only door to the world.
//
// A *channel* is one ordered stream of bytes in each direction between this rank and a peer. It holds a bounded number
// of bytes in flight (back pressure: a full one takes no more until its reader reads), keeps their order, and knows
// nothing of messages. No call but wait() ever blocks, so one thread can serve all peers.
//
// Implementations: those of channel_transport.h, and a simulated world for tests (simulated_transport.h).
// One thread. The first channel with each peer has the peer's number, as a participant of the collective. Calls about a
// channel throw Error{peer_lost} naming the peer when its end is gone, and Error{io} when the operating system refuses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

namespace banyan::run {

class Transport {
 public:
  Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;
  virtual ~Transport() = default;

  // Sends the first bytes of `head` and then of `body`, as many as fit now; returns how many, 0 when the channel is
  // full.
  virtual size_t write(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) = 0;

  // The same, of a body that stays where it is until nothing is unsent any more: it need not be copied.
  virtual size_t write_lasting(uint32_t channel, std::span<const std::byte> head, std::span<const std::byte> body) {
    return write(channel, head, body);
  }

  // True while bytes that write() took go on their way only if this process calls wait(), or anything else; a caller
  // that turns to other things before they have gone may hold up the peer. Also true while a body of write_lasting() is
  // still read. Transports whose bytes the kernel holds have no bytes of the first kind.
  virtual bool has_unsent(uint32_t /*channel*/) { return false; }

  // The oldest bytes that have arrived, or some of them; empty when there are none. Valid until the next call about
  // this channel. Reading in place spares the copy when bytes are reduced into something else.
  virtual std::span<const std::byte> peek(uint32_t channel) = 0;
  // Drops the first `count` bytes of what peek() showed, which makes room for the sender.
  virtual void consume(uint32_t channel, size_t count) = 0;

  // Moves the oldest bytes into `into`, as many as have arrived; returns how many.
  virtual size_t read(uint32_t channel, std::span<std::byte> into) = 0;

  // For a reader whose peer may never write: true if read() can find anything yet. A stream that is not connected is
  // asked for, as by read(), but never given up: Error{timed_out} is only for those who need it.
  virtual bool listen(uint32_t /*channel*/) { return true; }

  // Sleeps until a call that moved nothing before might move something now, or for `at_most`. May return early.
  virtual void wait(std::chrono::milliseconds at_most) = 0;
};

}  // namespace banyan::run
