// Channels: communications that match by their order on each rank: the collectives of a group, or the messages from one
// rank to another. The n-th on one member is the n-th on all others, unless a trace lost some (kineto/align.h).
//
// Complexity O(calls log calls) to gather; linear to compare and to agree.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {

// One call on one rank.
struct ChannelItem {
  uint32_t work = 0, call = 0;  // of the rank's draft
  int64_t start = 0, end = 0;   // ns of the rank's clock
};

struct ChannelMember {
  uint32_t draft = 0;
  std::vector<ChannelItem> items;  // as they began
};

struct MessageChannel {
  std::string name;  // as errors call it
  bool messages = false;
  std::vector<ChannelMember> members;  // all, in the order of the group; of messages: sender, receiver

  // True if all members have equally many items, and the n-th items of all can be one call.
  bool is_in_line(const std::vector<RankDraft>& drafts) const;
  // Gives to all what some know, once all are in line. Throws Error{invalid_input} for a call of which nobody knows
  // what it does or how large it is.
  void agree_on_calls(std::vector<RankDraft>& drafts) const;
  // An item for a person: "allreduce of 308 bytes (rank2.json event 77)".
  std::string describe(const std::vector<RankDraft>& drafts, uint32_t member, const ChannelItem& item) const;
};

// The properties on which calls that are the same must agree. An unknown one fits any.
struct CallSignature {
  std::optional<CollectiveKind> kind;  // of messages: unknown
  std::optional<uint64_t> bytes;
  std::optional<uint32_t> root;

  bool fits(const CallSignature& other) const;
  // Takes over what the other one knows.
  void widen(const CallSignature& other);
};

CallSignature signature_of(const DraftCall& call);

// Messages to oneself are in none. Channels of groups first, by number.
std::vector<MessageChannel> gather_channels(const std::vector<RankDraft>& drafts, const std::vector<Group>& groups);

}  // namespace banyan::job::kineto
