// ProgressWeight: the farther a call has come, the more of a link it gets (the law of MLTCP, arXiv 2402.09589: F(r) =
// slope * r + intercept, r the share of the bytes of the iteration that have been sent).
//
// Training jobs compute and communicate in turn. If two of them share a link evenly, their communication overlaps for
// ever. Under this law the one that is ahead gets ahead farther and ends sooner, so that the overlap shrinks with every
// iteration, until one communicates while the other computes: without clocks, profiles or a controller. A service knows
// where a call begins and ends, which a congestion control has to guess.
#pragma once

#include <algorithm>

namespace banyan::service {

struct ProgressWeight {
  double slope = 1.75, intercept = 0.25;

  // The factor of a call that has moved `done` of `all` bytes, for the weight of its tenant. 1 where nothing is to do.
  double of(double done, double all) const {
    if (all <= 0) return 1;
    return intercept + slope * std::clamp(done / all, 0.0, 1.0);
  }
};

}  // namespace banyan::service
