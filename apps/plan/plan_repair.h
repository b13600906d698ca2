// banyan plan --repair: a plan from a file, for its fabric as it is now.
#pragma once

#include <string>

#include "apps/collective_option.h"
#include "apps/fabric_option.h"
#include "apps/plan/loss_option.h"
#include "apps/terminal.h"

namespace banyan::app {

struct RepairRequest {
  std::string plan;        // the file of the old plan
  std::string collective;  // as the user gave it; empty: that of the plan
  FabricOption& fabric;    // without a FABRIC, its edits are those of the plan's fabric
  const LossOption& max_loss;
  std::string output;
  bool json = false;
};

// Reads, repairs, writes the new plan if that is asked for, and prints what changed. Throws Error as planning does, and
// Error{invalid_input} where the file is no valid plan, or of another collective.
void repair_plan_file(const Terminal& terminal, const RepairRequest& request);

}  // namespace banyan::app
