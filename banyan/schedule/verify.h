// The verifier: proves, without looking at data and without knowing any planner, that a schedule does what its
// collective promises.
//
// It checks, for every chunk: the trees are there that the kind needs and no others; each reaches every participant
// exactly once and nobody else but switches with the power that the tree needs there; each edge starts where the data
// already is (out-tree) or ends where it is still needed (in-tree), so there is no cycle and no contribution is lost or
// counted twice. The out-tree of an all-to-all is a path instead, through participants, to another than its root. Each
// route, used or not, is a path of links of the fabric between ranks, or switches that multicast or reduce, whose inner
// nodes are switches, and no link twice. For the whole: the units of each root sum to what the collective prescribes
// (fixes_roots()), those of each root and target to what the traffic does, or to anything for allreduce; ties
// (`steps`) grow along the way of a chunk: of two tied hops, the later has the larger step, whatever untied hops lie
// between them, and the hops of an allreduce's out-tree are later than all of its in-tree. So messages made of ties
// never wait for each other in a circle. Then it recomputes the time of the most loaded link.
//
// Complexity O(edges + links of all routes + chunks + links and nodes of the fabric): a million edges take some
// milliseconds. Pure; never throws on a well-formed schedule; shares no code with planners or cost.cc.
#pragma once

#include <optional>
#include <string>

#include "banyan/base/fraction.h"
#include "banyan/schedule/schedule.h"

namespace banyan::schedule {

struct Verdict {
  bool valid = false;
  // One line that names the first thing wrong, if not valid: "chunk 3 (root gpu1): out-tree reaches gpu5 twice".
  std::string reason = {};
  // Exact seconds per byte of the total by the most loaded link, recomputed, and that link (the first of several). Set
  // if valid, and also if nothing but the claim is wrong.
  Fraction seconds_per_byte = {};
  LinkId busiest{};
};

// `claim`: what the schedule's author says its seconds per byte are; a different recomputed value makes it not valid.
Verdict verify(const Schedule& schedule, const std::optional<Fraction>& claim = std::nullopt);

}  // namespace banyan::schedule
