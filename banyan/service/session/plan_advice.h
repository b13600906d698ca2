// Plan advice: whether a communicator should plan anew, for what others leave it of the network
// (share/route_adviser.h).
//
// Any thread: plans are made, which may take a while.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/run/execute/fabric_update.h"
#include "banyan/run/execute/plan_source.h"
#include "banyan/service/share/route_adviser.h"

namespace banyan::service {

// The last call of a communicator that follows a plan.
struct PlannedCall {
  std::shared_ptr<const run::PlanSource> source;  // shared with its session; of any generation
  run::PlanSource::Question question;
  std::vector<LinkUse> links;  // that it uses by its plan
  run::FabricUpdate adopted;   // that its plan is for
};

// The links of the daemons' fabric, by number.
struct LinkTable {
  std::vector<double> bandwidths;  // bytes per second
  std::vector<uint32_t> cables;    // by numbers of the PlanSource
};

// The bandwidths of cables that one communicator was advised to plan for. Others may change these bandwidths, too: an
// operator, or somebody who has measured them. So a view means parts of the bandwidths that others have set last.
class AdvisedCables {
 public:
  // The bandwidths that a view stands for, by cable: of both directions the less. A cable whose directions differ is
  // left out, since an update has one bandwidth for both.
  std::map<uint32_t, uint64_t> bandwidths(const LinkTable& links, const std::vector<LinkPart>& view,
                                          const run::FabricUpdate& adopted);

 private:
  struct Advised {
    uint64_t whole = 0;                // as somebody else has said last
    uint64_t adopted = 0, latest = 0;  // parts of it: the one that ranks agreed on last, and the one since
  };
  std::map<uint32_t, Advised> advised_;
};

// A wish for these bandwidths, by cable, where a plan for them is quicker by a tenth than the present one would be with
// them; nothing else. Throws what PlanSource::revised and plan throw.
std::optional<run::PlanWish> weigh(const PlannedCall& call, const LinkTable& links,
                                   const std::map<uint32_t, uint64_t>& bandwidths);

}  // namespace banyan::service
