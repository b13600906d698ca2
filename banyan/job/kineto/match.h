// Finds the calls of several ranks that are one communication, and what a rank's trace lost of it: groups
// (kineto/groups.h), their sequences of calls (kineto/channels.h), clocks (kineto/clocks.h); sequences that differ are
// merged (kineto/align.h) and completed (kineto/restore.h).
#pragma once

#include <vector>

#include "banyan/job/kineto/clocks.h"
#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {

struct RankMatch {
  std::vector<Group> groups;  // their ranks are indices of the drafts
  RankClocks clocks;
};

// `drafts` are ascending in rank. Afterwards all members of a group call the same, in the same order, and for every
// message there is its other side. Throws what the modules above throw.
// Complexity O(calls log calls) where nothing was lost, else also O(calls * what was lost) for each member of a
// channel.
RankMatch match_ranks(std::vector<RankDraft>& drafts);

}  // namespace banyan::job::kineto
