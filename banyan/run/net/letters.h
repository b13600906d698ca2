// Letters: messages between this rank and its peers over streams of a transport. The n-th that one end of a stream
// sends is what the n-th receive at the other end takes; its length must be what is expected.
//
// A letter is a 16-byte header and its bytes. One thread. Nothing waits: advance() is called again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>

#include "banyan/run/transport/transport.h"

namespace banyan {

class Letters {
 public:
  explicit Letters(Transport& transport) : transport_(transport) {}
  Letters(const Letters&) = delete;
  Letters& operator=(const Letters&) = delete;

  using Ticket = uint64_t;
  // The bytes stay the caller's, and must stay where they are until the letter is done.
  Ticket send(uint32_t channel, std::span<const std::byte> bytes);
  Ticket receive(uint32_t channel, std::span<std::byte> bytes);

  // Moves what can be moved; true when something was. Throws what the transport throws, and Error{mismatch} when a
  // letter has another length.
  bool advance();
  bool is_done(Ticket ticket) const;
  bool is_idle() const { return open_ == 0; }
  // A stream on which something is missing, when there is something open.
  uint32_t waiting_for() const;

 private:
  struct Header {
    uint64_t magic = 0, size = 0;
  };
  struct Letter {
    Ticket ticket = 0;
    std::byte* bytes = nullptr;  // read only when sent
    size_t size = 0;
    size_t done = 0;  // of header and bytes
    Header header;
  };

  bool write(uint32_t channel, Letter& letter);
  bool read(uint32_t channel, Letter& letter);

  Transport& transport_;
  std::map<uint32_t, std::deque<Letter>> out_, in_;  // by channel; the first is on its way
  Ticket next_ = 1;
  size_t open_ = 0;
};

}  // namespace banyan
