// TagMatcher: which message goes into which receive, by source and tag. The matching of MPI (MPI 4.0, section 3.5), for
// one rank. Receives that wait are the *posted* ones; messages that no posted receive fits are the *unexpected* ones.
//
// The messages of one peer to this rank, in the order in which they were sent, are the peer's *line*. The mover of the
// bytes (host/mailboxes.h, net/messenger.h) takes them off one after the other, and asks here:
//   awaits(p)  whether the next message on the line of p is to be taken,
//   begin()    where it goes, now that its tag and its length are known: into the receive that was posted first among
//              those that wait, have its tag and take from p or from any. If there is none, the message is unexpected:
//              it is kept in memory of our own,
//   end()      which is to be called when all of it is there.
// A receive that is posted looks first at the unexpected messages, the earliest begun first. It takes a whole one at
// once; of one that is still arriving it takes the part that is there, and the rest goes straight into its memory.
// So, at any time,
//   (1) no unexpected message matches a receive that waits.
//
// Nothing overtakes. Let M and N be of one peer and one tag, M sent first, so that N begins after M has ended. A
// receive gets N either when N begins: the receive waited, so by (1) M was not unexpected but had a receive. Or when
// the receive is posted: then M, begun earlier, would have been taken if it had been unexpected. Likewise a receive S
// that was posted after R gets M, which matches both, only when R waits no more: as M begins, R comes first; and M is
// not unexpected while R waits.
//
// Nothing deadlocks. While a receive waits for p or for any, awaits(p): whatever is first on the line of p is taken
// whole, whichever receives there are. This needs nothing but memory and the sender, who sends its line from the front
// and waits for nothing else. So every message on the line has its turn, and a receive waits for ever only when fewer
// messages were sent than receives posted that match them.
//
// Memory. A message is kept as unexpected only if it came before something that is awaited; there is no other bound on
// that memory but what MemoryKeeper sets. While no receive waits for p, its line stands still, and its sender waits.
//
// One thread. post() and begin() take constant time, except for receives of the same source whose tags hash to the same
// chain, and unexpected messages of the same tag. Memory is allocated only for unexpected messages, and to hold more
// receives than ever before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "banyan/base/error.h"

namespace banyan::run {

// A message that is over.
struct MessageEnd {
  uint64_t ticket = 0;
  uint32_t peer = 0;  // where it went, or came from
  bool operator==(const MessageEnd&) const = default;
};

// Is asked before so much memory is taken for a call or message of somebody; what it returns is held as long as that
// memory. Throws Error where it is too much. Empty: there is no limit.
using MemoryKeeper = std::function<std::shared_ptr<void>(uint64_t bytes)>;

// As a receive's source: takes from whoever sends first.
inline constexpr uint32_t kAnyPeer = UINT32_MAX;

// Length and type of a message. Types are numbers that mean nothing here: both ends must give the same.
class MessageShape {
 public:
  static constexpr int kTypeBit = 56;

  MessageShape(uint64_t bytes, uint8_t type = 0) : word_(bytes | uint64_t{type} << kTypeBit) {}
  // As it travels.
  static MessageShape of_word(uint64_t word) { return {word & kMostBytes, static_cast<uint8_t>(word >> kTypeBit)}; }
  uint64_t word() const { return word_; }
  uint64_t bytes() const { return word_ & kMostBytes; }
  uint8_t type() const { return static_cast<uint8_t>(word_ >> kTypeBit); }
  bool operator==(const MessageShape&) const = default;

 private:
  static constexpr uint64_t kMostBytes = (uint64_t{1} << kTypeBit) - 1;
  uint64_t word_;
};
// "10 int32", of so many bytes and such a type. Null: "40 bytes of type 2".
using ShapeWords = std::string (*)(const MessageShape& shape);

// Messages that the movers of bytes are asked to send and to receive. The bytes stay the caller's, and must stay where
// they are until the message is over.
struct MessageToSend {
  uint32_t to = 0, tag = 0;
  std::span<const std::byte> bytes;
  uint8_t type = 0;  // see MessageShape
};
struct MessageToReceive {
  uint32_t from = kAnyPeer, tag = 0;
  std::span<std::byte> into;
  uint8_t type = 0;
};

class TagMatcher {
 public:
  struct Options {
    uint32_t rank = 0, ranks = 0;
    MemoryKeeper keeper = {};  // of unexpected messages
    ShapeWords words = nullptr;
  };
  explicit TagMatcher(const Options& options);
  TagMatcher(const TagMatcher&) = delete;
  TagMatcher& operator=(const TagMatcher&) = delete;

  struct Receive {
    uint64_t ticket = 0;
    uint32_t peer = kAnyPeer;
    uint32_t tag = 0;
    std::span<std::byte> into;  // the caller's, until it is over
    uint8_t type = 0;

    MessageShape shape() const { return {into.size(), type}; }
  };
  void post(const Receive& receive);

  // True if the next message of the peer is to be taken.
  bool awaits(uint32_t peer) const { return named_[peer] > 0 || (from_any_ > 0 && !is_lost_[peer]); }
  // True if a message of this rank to itself may be begun.
  bool awaits_own() const { return named_[options_.rank] > 0 || from_any_ > 0; }
  // True if a message is awaited from this very peer.
  bool names(uint32_t peer) const { return named_[peer] > 0; }

  // A message that is being taken: `taken` of its bytes are there, which its taker counts. Their address may change
  // with every post().
  struct Arrival {
    std::byte* bytes = nullptr;
    uint64_t size = 0, taken = 0;
  };
  // The message of the peer that is being taken; none between end() and begin().
  Arrival* arriving(uint32_t peer) { return incoming_[peer].is_open ? &incoming_[peer] : nullptr; }
  const Arrival* arriving(uint32_t peer) const { return incoming_[peer].is_open ? &incoming_[peer] : nullptr; }
  // Only when awaits(peer), or awaits_own() of this rank, and none is arriving. Throws Error{mismatch} when its receive
  // has another length or type, Error{io} when there is no memory to keep it as unexpected, and what the keeper throws.
  Arrival& begin(uint32_t peer, uint32_t tag, const MessageShape& shape);
  void end(uint32_t peer);

  // A message of this rank to itself: takes all of it, or nothing when no receive waits that it might be for.
  bool take_own(uint32_t tag, std::span<const std::byte> bytes, uint8_t type = 0);

  // Appends the receives that are over since the last call, in the order in which they ended; true when there are any.
  // Throws Error{mismatch} when one was posted for an unexpected message of another length or type; the reason of the
  // last loss, when a receive from any waits and all peers are lost.
  bool hand_over(std::vector<MessageEnd>& ended);

  // Nothing will come from the peer any more: a receive from any waits for the others.
  void lose(uint32_t peer, Error why);

  // True if nothing is awaited from this very peer.
  bool can_do_without(uint32_t peer) const { return named_[peer] == 0 && !incoming_[peer].is_open; }

  // Neither is there a receive that was not handed over, nor a message that is being taken.
  bool is_idle() const { return open_ == 0 && arriving_ == 0; }
  // A rank that something is awaited from. If any may send it is each of them in turn, a few times in a row, so that a
  // caller can see that it does not change.
  std::optional<uint32_t> waiting_for() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kFewestChains = 256, kAsksInARow = 4;

  struct Waiting {
    Receive receive;
    uint64_t number = 0;  // in the order of posting
    uint32_t next = kNone;
  };
  // Those that wait and whose sources and tags fall together, in the order of posting. There are as many chains as
  // receives, and nobody outside this process knows which fall together: so one is found at once, whatever tags are
  // chosen.
  struct Chain {
    uint32_t first = kNone, last = kNone;
  };
  struct Place {
    Chain* chain = nullptr;
    uint32_t before = kNone, at = kNone;
  };
  struct Unexpected {
    uint32_t peer = 0;
    MessageShape shape{0};
    std::unique_ptr<std::byte[]> bytes;
    std::shared_ptr<void> kept;  // of the keeper
    uint64_t number = 0;         // in the order in which they began
  };
  struct HashOfTag {
    size_t operator()(uint32_t tag) const;
  };
  using Kept = std::map<uint32_t, std::list<Unexpected>>;  // of one tag, by peer
  struct Incoming : Arrival {
    bool is_open = false;
    uint64_t ticket = 0;               // of its receive, when it has one
    Unexpected* unexpected = nullptr;  // where it is kept when it has none
  };

  Chain& chain_of(uint32_t peer, uint32_t tag);
  void append(uint32_t at);
  void add_chains();
  static Kept::iterator first_of(Kept& kept);
  Place find(uint32_t peer, uint32_t tag);
  std::optional<Receive> match(uint32_t peer, uint32_t tag);
  void wait(const Receive& receive);
  Receive remove(const Place& place);
  bool take_unexpected(const Receive& receive);
  void take(const Unexpected& message, const Receive& receive);
  Unexpected& keep_unexpected(uint32_t peer, uint32_t tag, const MessageShape& shape);
  Error mismatch(uint32_t peer, const MessageShape& sent, const Receive& receive) const;
  std::string words_of(const MessageShape& shape) const;

  const Options options_;
  std::vector<Chain> chains_;     // a power of two
  std::vector<Waiting> waiting_;  // in chains, or free
  uint32_t free_ = kNone;
  uint64_t posted_ = 0;
  std::vector<uint32_t> named_;  // by peer: receives that wait for it
  uint32_t from_any_ = 0;        // and those for any
  std::vector<bool> is_lost_;    // by peer; and this rank, which sends itself nothing
  uint32_t lost_ = 0;
  Error last_loss_;
  mutable uint32_t asked_ = 0;

  std::vector<Incoming> incoming_;  // by peer
  std::unordered_map<uint32_t, Kept, HashOfTag> unexpected_;
  uint64_t kept_ = 0;  // unexpected messages, ever
  size_t open_ = 0, arriving_ = 0;
  std::vector<MessageEnd> ended_;
  std::optional<Error> failure_;
};

}  // namespace banyan::run
