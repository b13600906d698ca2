// Reports the links of a fabric that lose packets, and those that may be disabled without costing any rank too much.
//
// The question and its answer by capacity are CorrOpt's (Zhuo et al., "Understanding and mitigating packet corruption
// in data center networks", SIGCOMM 2017): losses by corruption do not go away with less traffic, so a lossy link is
// best disabled until it is mended, unless too few links are left. Lossy links that stay may still carry traffic that
// bears loss, as in RAIL (Zhuo et al., NSDI 2017): plans leave out links by --max-loss (fabric/loss.h).
//
// Both directions of a cable are disabled together. A rank's capacity is the number of its paths up on Clos fabrics
// (up_paths.h), else the least flow that it can exchange with any other rank (flow_choice.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/fabric/cables.h"
#include "banyan/fabric/fabric.h"

namespace banyan::design {

struct LossReport {
  struct Cable {
    fabric::Cable ends;
    std::string name;      // "leaf0-spine3"
    double loss = 0;       // of both directions together
    Fraction share_alone;  // what the worst rank keeps when only this cable is disabled
    bool may_alone = false;
    bool disable = false;  // one of those to disable together
  };
  bool is_clos = false;
  std::vector<Cable> cables = {};      // those that lose, the most loss first
  Fraction share;                      // what every rank must keep
  Fraction share_left;                 // what the worst rank keeps when those of `disable` are disabled
  double loss = 0, loss_disabled = 0;  // sums over `cables`
  double loss_at_most = 0;             // no choice disables more; loss_disabled where that is exact
  bool is_exact = true;
};

// `share` is above 0 and at most 1. Throws Error{invalid_input} otherwise, and Error{unsupported} for fabrics of too
// many ranks that are no Clos.
LossReport report_losses(const Fabric& fabric, const Fraction& share);

}  // namespace banyan::design
