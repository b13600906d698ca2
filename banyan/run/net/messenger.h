// Messenger: messages between this rank and its peers, over streams (message_streams.h). message/tag_matcher.h says
// which receive takes which message. A message is read when its receive is posted, or when it blocks one that a receive
// may be waiting for; until then it stays in its stream, which holds few bytes.
//
// A message is a 16-byte header and its bytes. A receive from any peer listens to all streams (MessageStreams::listen):
// a lost peer is then one sender less, and an error only when it was lost in the middle of a message, or when no peer
// is left.
//
// One thread. Nothing waits: advance() is called again and again. It looks at each peer, and takes time for what moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/message/queue.h"
#include "banyan/run/message/tag_matcher.h"
#include "banyan/run/net/message_streams.h"
#include "banyan/run/net/step_budget.h"

namespace banyan::run {

class Messenger {
 public:
  struct Options {
    uint32_t rank = 0, ranks = 0;
    MemoryKeeper keeper = {};                       // of messages that come before their receives
    std::shared_ptr<const StepBudget> budget = {};  // of one advance(); none: it moves what it can
    ShapeWords words = nullptr;                     // for errors
  };
  Messenger(MessageStreams& streams, const Options& options);
  Messenger(const Messenger&) = delete;
  Messenger& operator=(const Messenger&) = delete;

  using Ticket = uint64_t;
  Ticket send(const MessageToSend& message);
  Ticket receive(const MessageToReceive& message);

  // Moves what can be moved; true when something was. Appends the messages that are over: received, or sent so far that
  // they arrive whatever this rank does next (MessageStreams::has_unsent). The next message to the same peer begins
  // after that, so that none waits for those behind it. Throws what TagMatcher and the streams throw, and
  // Error{mismatch} when a peer sends bytes that are no message.
  bool advance(std::vector<MessageEnd>& ended);
  bool is_sending() const { return sends_ > 0; }
  bool is_idle() const { return sends_ == 0 && matcher_.is_idle(); }
  // A rank that something open waits for; none when nothing is open.
  std::optional<uint32_t> waiting_for() const;
  // True if nothing open needs this rank, except receives from any, which others may serve.
  bool can_do_without(uint32_t rank) const { return out_[rank].empty() && matcher_.can_do_without(rank); }
  // The message of a peer of which a part is here, or its beginning; none: nullptr.
  const TagMatcher::Arrival* arriving(uint32_t peer) const { return matcher_.arriving(peer); }

 private:
  static constexpr uint64_t kStepsAtATime = 64;  // with one peer, before the next has its turn

  struct Header {
    uint32_t magic = 0, tag = 0;
    uint64_t shape = 0;  // the word of a MessageShape
  };
  struct Sending {
    Ticket ticket = 0;
    std::span<const std::byte> bytes;
    size_t done = 0;  // of header and bytes
    Header header;
  };
  struct Coming {
    Header header;
    size_t read = 0;  // of the header; all, while the message is arriving
  };

  bool write(uint32_t peer, std::vector<MessageEnd>& ended);
  bool write_to_self(std::vector<MessageEnd>& ended);
  bool receive_from(uint32_t peer);
  bool is_engaged(uint32_t peer);
  bool read(uint32_t peer);
  TagMatcher::Arrival* read_header(uint32_t peer);

  MessageStreams& streams_;
  const uint32_t rank_;
  const std::shared_ptr<const StepBudget> budget_;
  size_t left_ = 0;                  // of them, in this advance()
  std::vector<Queue<Sending>> out_;  // by peer; the first is on its way
  std::vector<Coming> in_;           // by peer
  TagMatcher matcher_;

  uint32_t first_ = 0;  // peer to look at
  Ticket next_ = 1;
  size_t sends_ = 0;  // open
};

}  // namespace banyan::run
