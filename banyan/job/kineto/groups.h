// Finds the group of each communication of each rank.
//
// Members are told by a list of ranks beside the call, else by the group's name and a table (distributedInfo,
// process_group:init), else by a first rank and a stride, else they are all ranks. Names are those of PyTorch, which
// are the same on all ranks; where a rank knows a group only by the address of its object, which is another one on
// every rank, its groups of the same members are numbered as they first occur.
//
// Complexity O(calls log groups + the members of all groups on all their ranks).
#pragma once

#include <vector>

#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {

// Sets group, bytes, root and peer of all calls. The groups' ranks are indices of `drafts`, which are ascending in
// rank. Throws Error{invalid_input} with the event for a call whose group, size or peer is not known or impossible, and
// for a group with a member of which there is no draft.
std::vector<Group> find_groups(std::vector<RankDraft>& drafts);

}  // namespace banyan::job::kineto
