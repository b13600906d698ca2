// Mailboxes: messages between two ranks of a host. message/tag_matcher.h says which receive takes which message.
//
// A message is offered in a box of shared memory (segment.h), in one of five ways. A small one lies in the box itself,
// a somewhat larger one in the memory beside it: then the sender is done at once, and may leave. The receiver takes a
// larger one out of the sender's buffer, if that is in a region or may be attached to; else the message passes through
// memory of the sender piece by piece. Only one message of a pair is on its way at a time; others queue here. It is
// taken when its receive is posted, or when it blocks one that a receive may be waiting for; until then it stays in its
// box.
//
// A rank that leaves says so. A receive from any rank then does without it, and fails only when no other is left. A
// message that it had offered in memory of its own fails with Error{peer_lost}: that memory may hold something else by
// now.
//
// One thread. Nothing waits: advance() is called again and again. It looks at each peer, and takes time for what moves.
// A message that the box itself holds allocates nothing at either end once its receive is posted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/host/regions.h"
#include "banyan/run/host/segment.h"
#include "banyan/run/message/queue.h"
#include "banyan/run/message/tag_matcher.h"
#include "banyan/run/system/fork_guard.h"

namespace banyan::run {

class Mailboxes {
 public:
  struct Options {
    uint32_t rank = 0;
    RegionPool* own_regions = nullptr;
    std::span<const std::unique_ptr<PeerRegions>> peers;  // by rank; the caller's
    bool may_attach = false;                              // equal on all ranks
    size_t eager_bytes = SIZE_MAX;   // up to so many, a send does not wait for its receive, if a box holds them
    size_t piece_bytes = 128 << 10;  // of streams; equal on all ranks
    ShapeWords words = nullptr;      // for errors
  };
  Mailboxes(const Segment& segment, const Options& options);
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;
  ~Mailboxes();

  using Ticket = uint64_t;
  Ticket send(const MessageToSend& message);
  Ticket receive(const MessageToReceive& message);

  // Moves what can be moved; true when something was. Appends what is over: sent, so that its buffer is free again, or
  // received. Throws what TagMatcher and PeerRegions throw.
  bool advance(std::vector<MessageEnd>& ended);
  bool is_idle() const { return sends_ == 0 && matcher_.is_idle(); }
  // A rank that something open waits for; none when nothing is open.
  std::optional<uint32_t> waiting_for() const;
  // True if nothing open needs this rank, except receives from any, which others may serve.
  bool can_do_without(uint32_t rank) const { return out_[rank].messages.empty() && matcher_.can_do_without(rank); }
  // The message of a peer of which a part is here, or its beginning; none: nullptr.
  const TagMatcher::Arrival* arriving(uint32_t peer) const { return matcher_.arriving(peer); }

 private:
  enum class Kind : uint32_t { inline_, eager, viewed, attached, streamed };
  static constexpr uint64_t kStepsAtATime = 64;  // with one peer, before the next has its turn

  struct Sending {
    Ticket ticket = 0;
    uint32_t tag = 0;
    const std::byte* bytes = nullptr;
    uint64_t size = 0;
    uint8_t type = 0;
    bool is_offered = false;
    uint64_t pieces = 0;  // done
  };
  // The messages to one peer.
  struct OutLine {
    Queue<Sending> messages;      // the first is on its way
    uint64_t number = 1;          // of the first
    std::byte* memory = nullptr;  // a region, for what is streamed
  };
  // The messages from one peer.
  struct InLine {
    uint64_t number = 1;  // of the message that comes next, or is being taken
    uint64_t pieces = 0;  // of it that were taken
  };

  bool advance_sending(uint32_t peer, std::vector<MessageEnd>& ended);
  void offer(uint32_t peer, OutLine& line, Sending& message);
  bool send_piece(uint32_t peer, OutLine& line, Sending& message);
  std::byte* memory_of(OutLine& line);
  void finish(uint32_t peer, std::vector<MessageEnd>& ended);

  bool advance_receiving(uint32_t peer);
  Error left(uint32_t peer) const;
  void expect_there(uint32_t peer) const;
  bool can_be_taken(const Post& post) const;
  bool take(uint32_t peer, const Post& post, TagMatcher::Arrival& arrival);
  bool take_piece(uint32_t peer, const Post& post, TagMatcher::Arrival& arrival);
  static uint64_t counter(uint64_t number, uint64_t pieces) { return number << 32 | pieces; }

  const Segment& segment_;
  const Options options_;
  std::vector<OutLine> out_;  // by peer
  std::vector<InLine> in_;
  TagMatcher matcher_;
  const ForkGuard fork_guard_;
  uint32_t first_ = 0;  // peer to look at
  Ticket next_ = 1;
  size_t sends_ = 0;  // open
};

}  // namespace banyan::run
