// The sequences of a channel's members, where traces have lost some of their calls, merged into one that has them all.
//
// Two calls can be the same one when what is known of them agrees (CallSignature). Members are merged one by one, the
// longest first, which likely lost nothing. Among the alignments with the fewest left-overs, the one is taken in which
// the same calls end at the same time, by the clocks that ranks have in common (a collective ends on all ranks within
// microseconds; it may start at any time). Ranks without a common clock get one: either their ends are in line or their
// beginnings, whichever fits better.
//
// Notation: n merged calls, m of the member, d left-overs. An alignment is a path from (0, 0) to (n, m) that leaves the
// diagonal by at most d, so a band of that width is looked at; it is doubled as long as more are left over (Ukkonen,
// "Algorithms for approximate string matching", 1985). Time and bytes O((n + m) d) for each member.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/job/kineto/channels.h"
#include "banyan/job/kineto/clocks.h"

namespace banyan::job::kineto {

struct MergedCall {
  CallSignature what;
  int64_t start = 0, end = 0;     // ns, by the common clock
  std::vector<uint32_t> item_of;  // by member: its item, or kNoIndex
  uint32_t seen = 0;              // members that have it
};

// Throws Error{mismatch} that names both ranks and events where members contradict each other: where each has a call
// between the same neighbours that the other has not; where a rank lacks most of its calls, or most ranks lack one.
// Throws Error{unsupported} for sequences that are too long for how different they are.
std::vector<MergedCall> merge_members(const MessageChannel& channel, const std::vector<RankDraft>& drafts,
                                      RankClocks& clocks);

}  // namespace banyan::job::kineto
