// Puts back what a rank's trace lost of a channel and others prove: a communication that ended on one rank has run on
// all.
//
// It starts when others say that it did, by the common clock, but between its neighbours of the channel, on their
// stream; it takes no time of its own, since how long a communication takes is predicted. It is launched where the
// host's trace says that it was called, else by the last launch of the host before.
//
// Complexity O(merged calls + members * inserted * log works).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/job/kineto/align.h"
#include "banyan/job/kineto/channels.h"
#include "banyan/job/kineto/clocks.h"

namespace banyan::job::kineto {

// One rank's: whose call it was, and which thread could have launched it.
class LostLaunches {
 public:
  explicit LostLaunches(const RankDraft& draft);

  // The index of the lost call of this kind and, where it is known, of this group that was called nearest to `start`,
  // and not much later. It is given once. `collective` of nothing fits any, and messages.
  std::optional<uint32_t> take(CommCall::Kind kind, std::optional<CollectiveKind> collective, uint32_t group,
                               int64_t start);
  // The last launch of any thread up to a moment.
  struct Launch {
    int64_t time = 0;
    DraftPlace place;
  };
  std::optional<Launch> last_before(int64_t time) const;

 private:
  using Key = std::tuple<CommCall::Kind, CollectiveKind, uint32_t>;  // the last one is the group
  using Times = std::set<std::pair<int64_t, uint32_t>>;              // of the call, index
  std::map<Key, Times> lost_;
  std::vector<Launch> launches_;  // ascending
};

class LostCalls {
 public:
  // Both are borrowed. The drafts' threads and lost calls must not change any more.
  LostCalls(std::vector<RankDraft>& drafts, const RankClocks& clocks) : drafts_(drafts), clocks_(clocks) {}

  // Completes the items of all members, so that they are in line with the merged sequence, and their drafts.
  void put_back(MessageChannel& channel, const std::vector<MergedCall>& merged);

 private:
  // A merged call, and one of those who have it.
  struct Giver {
    const MergedCall& call;
    uint32_t member = 0;
    ChannelItem item;
  };
  // Between these items of the member; null at either end.
  struct Gap {
    const ChannelItem *previous, *next;
  };
  ChannelItem insert(const MessageChannel& channel, uint32_t m, const Giver& giver, Gap gap);
  void launch(uint32_t d, const CallSignature& what, const DraftCall& call, DraftWork& work);

  std::vector<RankDraft>& drafts_;
  const RankClocks& clocks_;
  std::map<uint32_t, LostLaunches> launches_;  // by draft
};

}  // namespace banyan::job::kineto
