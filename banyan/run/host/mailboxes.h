// Mailboxes: messages between two ranks of a host. The n-th that a rank sends to another is taken by the n-th receive
// there.
//
// A message is offered in a box of shared memory (segment.h), in one of five ways: a little lies in the box itself, and
// some more in the memory beside it: then the sender is done at once, and may leave. More is taken by the receiver out
// of the sender's buffer, where it is in a region or may be attached to; else it passes through memory of the sender
// piece by piece. Only one message of a pair is on its way at a time; others queue here.
//
// One thread. Nothing waits: advance() is called again and again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/host/regions.h"
#include "banyan/run/host/segment.h"

namespace banyan {

class Mailboxes {
 public:
  struct Options {
    uint32_t rank = 0;
    RegionPool* own_regions = nullptr;
    std::span<const std::unique_ptr<PeerRegions>> peers;  // by rank; the caller's
    bool may_attach = false;                              // equal on all ranks
    size_t eager_bytes = SIZE_MAX;   // up to so many, a send does not wait for its receive, if a box holds them
    size_t piece_bytes = 128 << 10;  // of streams
  };
  Mailboxes(const Segment& segment, const Options& options);
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;
  ~Mailboxes();

  using Ticket = uint64_t;
  Ticket send(uint32_t to, std::span<const std::byte> bytes);
  Ticket receive(uint32_t from, std::span<std::byte> bytes);

  // Moves what can be moved; true when something was. Throws Error{mismatch} naming the peer whose message has another
  // length, and what PeerRegions throws.
  bool advance();
  // Whether the message has been sent, so that its buffer is free again, or received.
  bool is_done(Ticket ticket) const;
  bool is_idle() const { return open_ == 0; }
  // A rank whose sign is missing, when there is something open.
  std::optional<uint32_t> waiting_for() const;

 private:
  enum class Way : uint32_t { inline_, eager, viewed, attached, streamed };
  struct Message {
    Ticket ticket = 0;
    std::byte* bytes = nullptr;  // read only when sent
    uint64_t size = 0;
    bool is_offered = false;
    uint64_t pieces = 0;  // done
  };
  // All between this rank and one peer, one way.
  struct Line {
    std::deque<Message> messages;  // the first is on its way
    uint64_t number = 1;           // of the first
    std::byte* memory = nullptr;   // of outgoing ones: a region, for what is streamed
  };

  bool advance_sending(uint32_t peer);
  bool advance_receiving(uint32_t peer);
  void offer(uint32_t peer, Line& line, Message& message);
  bool send_piece(uint32_t peer, Line& line, Message& message);
  bool take_pieces(uint32_t peer, const Post& post, Line& line, Message& message);
  std::byte* memory_of(Line& line);
  void finish(Line& line);
  static uint64_t counter(const Line& line, uint64_t pieces) { return line.number << 32 | pieces; }

  const Segment& segment_;
  const Options options_;
  std::vector<Line> out_, in_;  // by peer
  Ticket next_ = 1;
  size_t open_ = 0;
};

}  // namespace banyan
