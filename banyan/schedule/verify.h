// The verifier: proves, without looking at data and without knowing any planner, that a schedule does what its
// collective promises.
//
// It checks, for every chunk: the trees are there that the kind needs and no others; each reaches every participant
// exactly once and nobody else; each edge starts where the data already is (out-tree) or ends where it is still needed
// (in-tree), so there is no cycle and no contribution is lost or counted twice; each route is a path of links of the
// fabric whose inner nodes are switches, and no link twice. For the whole: the units of each root sum to what the
// collective prescribes (fixes_roots()), or to anything for allreduce; ties (`steps`) do not make a later hop of a chunk an
// earlier or equal step. Then it recomputes the time of the most loaded link.
//
// Complexity O(edges * route length + chunks * participants). Pure; shares no code with planners or cost.cc.
#pragma once

#include <optional>
#include <string>

#include "banyan/base/fraction.h"
#include "banyan/schedule/schedule.h"

namespace banyan {

struct Verdict {
  bool valid = false;
  // When not valid, one line that names the first thing wrong: "chunk 3 (root gpu1): out-tree reaches gpu5 twice".
  std::string reason;
  // When valid: exact seconds per byte of the total by the most loaded link, recomputed, and that link.
  Fraction seconds_per_byte;
  LinkId busiest{};
};

// `claim`: what the schedule's author says its seconds per byte are; a different recomputed value makes it not valid.
Verdict verify(const Schedule& schedule, const std::optional<Fraction>& claim = std::nullopt);

}  // namespace banyan
