// Connection: one ordered stream of bytes each way with one peer. Implementations: tcp_connection.h (a socket),
// shared_connection.h (memory that both share, beside a socket), checked_connection.h (another one, with checksums),
// sealed_connection.h (another one, authenticated or encrypted).
//
// One thread. No function blocks. All throw connection_error() when the other end is gone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "banyan/base/error.h"

namespace banyan::run {

// Error{peer_lost} for what happens when a process is gone or somebody breaks the connection off, Error{io} else; names
// the peer.
Error connection_error(uint32_t peer, int error);

class Connection {
 public:
  Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  virtual ~Connection() = default;

  // As in Transport. Throws only where it has taken nothing: what was taken may have arrived.
  virtual size_t write(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  virtual size_t write_lasting(std::span<const std::byte> head, std::span<const std::byte> body) {
    return write(head, body);
  }
  virtual std::span<const std::byte> peek() = 0;
  virtual void consume(size_t count) = 0;
  virtual size_t read(std::span<std::byte> into) = 0;

  virtual int fd() const = 0;  // of the socket
  // To be called before a sleep: the events, as poll(2) calls them, on fd() that can change what was tried in vain
  // since the last time. kNoSleep: it has changed already.
  static constexpr short kNoSleep = -1;
  virtual short before_sleep() = 0;
  // To be called after the sleep.
  virtual void after_sleep() {}
  // True if links carry it, so that it can be paced and they can fail.
  virtual bool uses_links() const = 0;
  // True while bytes that write() took are still here, or those of write_lasting() are still read. The functions for
  // sleeps send them on and find out, and so does this one.
  virtual bool has_unsent() { return false; }
  // Upper bound of the bytes that write() has taken and that are still to reach the host of the peer: its last ones.
  // SIZE_MAX: nothing is known.
  virtual size_t in_flight() const { return SIZE_MAX; }
};

}  // namespace banyan::run
