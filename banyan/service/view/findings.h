// Findings: what is wrong in a cluster, from what its daemons see of calls. In words that name the culprit.
//
// - late rank: others of its communicator have begun a call that it has not begun for kLate, though it has ended those
//   before; or its program has begun it, and all that wait, directly or by others, wait for this rank.
// - stalled: a call under way of which no rank has moved anything for kStalled, and no rank is late.
// - unreachable host.
//
// Daemons say of themselves (HostView::troubles) that the directory of hosts does not answer, that they have no
// descriptors left, and that they could not use what stands in their file of rules: merge() adds that.
//
// Views of several hosts are taken at moments that differ by some milliseconds, so nothing is said of less than kLate.
#pragma once

#include <chrono>
#include <vector>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

inline constexpr std::chrono::milliseconds kLate{300}, kStalled{1000};

// Kinds of what daemons say of themselves.
inline constexpr const char *kDirectoryTrouble = "directory", *kDescriptorTrouble = "descriptors",
                            *kRulesTrouble = "rules";

// A rank whose daemon says that it moves waits for nobody, and neither do those who wait for it. Messages make nobody
// late: a receive may wait for as long as its program likes.
//
// `communicators` have all ranks that are known, in ascending order. Pure. In the order of the communicators, then of
// the unreachable hosts. O(ranks log ranks).
std::vector<FindingView> find_wrong(const std::vector<CommunicatorView>& communicators,
                                    const std::vector<UnreachableHost>& unreachable);

}  // namespace banyan::service
