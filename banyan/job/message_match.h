// MessageMatch: which receive takes which message, by the rule of job.h, for all ranks of a job.
//
// Sends and receives are given in the order in which they start. Constant time each, on average; where the receiver
// ever receives from anybody or any tag, time in what waits on the other side. Memory: what waits for its partner.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "banyan/base/hash.h"
#include "banyan/job/job.h"

namespace banyan::job {

// The key by which a message is matched. In the key of a receive, `from` may be Node::kAnyPeer and `tag` Node::kAnyTag.
struct MessageKey {
  uint32_t from = 0, to = 0, tag = 0;
  bool is_exact() const { return from != Node::kAnyPeer && tag != Node::kAnyTag; }
  // True if a receive of this key takes a message of the other key.
  bool takes(const MessageKey& message) const {
    return to == message.to && (from == Node::kAnyPeer || from == message.from) &&
           (tag == Node::kAnyTag || tag == message.tag);
  }
  friend bool operator==(const MessageKey&, const MessageKey&) = default;
};
struct MessageKeyHash {
  size_t operator()(const MessageKey& key) const {
    return static_cast<size_t>(mix(uint64_t{key.from} << 32 | key.to, key.tag));
  }
};
// The key of the node of a send or receive.
MessageKey message_key(const Job& job, RankNode place);

class MessageMatch {
 public:
  explicit MessageMatch(const Job& job);

  // The partner of the send or receive at `place`, which waits no longer; nothing: `place` waits from now on.
  std::optional<RankNode> start(RankNode place);

  // Visits all sends and receives that wait, in no order.
  void for_each_waiting(const std::function<void(RankNode)>& visit) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Entry {
    RankNode place;
    uint32_t next = kNone;
  };
  struct Queue {  // of one key: either sends wait, or receives
    uint32_t first = kNone, last = kNone;
    bool holds_sends = false;
  };
  struct Waiting {
    RankNode place;
    MessageKey key;
  };
  struct Mixed {  // in the order in which they started
    std::list<Waiting> sends, receives;
  };

  std::optional<RankNode> start_exact(RankNode place, const MessageKey& key, bool is_send);
  static std::optional<RankNode> start_mixed(Mixed& mixed, const Waiting& started, bool is_send);
  uint32_t new_entry(RankNode place);

  const Job& job_;
  std::unordered_map<MessageKey, Queue, MessageKeyHash> queues_;
  std::vector<Entry> entries_;
  uint32_t free_entry_ = kNone;
  std::unordered_map<uint32_t, Mixed> mixed_;  // by rank that receives from anybody or any tag: all that waits there
};

}  // namespace banyan::job
