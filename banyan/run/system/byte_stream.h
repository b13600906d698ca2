// ByteStream and Dialer: connections between processes, as their users need them. Behind them are sockets, or a
// simulated network.
//
// Nothing here waits. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace banyan::run {

// An ordered stream of bytes in each direction. Its end closes it, which the peer reads after all that was sent before.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  // Calls `ready` from now on when there is something to receive, or, while room is awaited, room to send. Once.
  using Ready = std::function<void(bool may_receive, bool may_send)>;
  virtual void watch(Ready ready) = 0;
  virtual void await_room(bool on) = 0;

  // Returns the number of bytes it has taken; none if the stream is broken: receive() tells.
  virtual size_t send(std::string_view bytes) = 0;
  struct Received {
    size_t count = 0;  // zero: nothing now, or nothing any more
    bool is_over = false;
    bool is_orderly = false;  // the peer has closed it, or its kernel has because the process ended
    bool is_said = false;     // the peer has said so itself, as far as it can
    std::string why{};        // it is over
  };
  virtual Received receive(std::span<char> buffer) = 0;
};

// Makes connections to peers, which have numbers. A peer is reached by one or several *paths*: pairs of addresses.
class Dialer {
 public:
  struct Outcome {
    std::unique_ptr<ByteStream> stream;  // none when it has failed
    std::string failure;                 // then why
    bool nobody_listens = false;         // a host says that its port is closed
    bool somebody_listens = false;       // a host has taken the call, and the process has not answered: it is stopped
  };
  using Done = std::function<void(Outcome)>;

  Dialer() = default;
  Dialer(const Dialer&) = delete;
  Dialer& operator=(const Dialer&) = delete;
  virtual ~Dialer() = default;

  // At least one; may grow.
  virtual uint32_t paths(uint32_t peer) const = 0;
  // Tries once, then calls `done`, never before it returns. The number is for cancel().
  virtual uint64_t dial(uint32_t peer, uint32_t path, Done done) = 0;
  // `done` is not called then. Past and unknown ones are ignored.
  virtual void cancel(uint64_t call) = 0;
};

}  // namespace banyan::run
