// The time of a training step in closed form, without simulating a fabric: what calibration needs thousands of times,
// and a first answer in microseconds.
//
// Every stage's forward and backward pass takes what its operators and tensor-parallel collectives take; the pipeline's
// order (pipeline.h) is then played through, with messages between stages as latency that overlaps with other work;
// data-parallel collectives and the optimizer follow, where overlapped gradients hide behind the last backward pass. A
// collective takes the time of its bytes at the busiest link over the link efficiency, and the device's latency per
// doubling of its ranks (collective_cost.h); a box has one link per rank inward and one NIC per rank outward, and a
// group that leaves the box uses the NICs of all its ranks there.
//
// Against simulating the same step as a Job with these collective times, the difference is below 2 % (a test).
#pragma once

#include "banyan/job/job.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/config.h"

namespace banyan::predict {

struct StepEstimate {
  double seconds = 0;
  // Parts of the time of the stage that takes longest; they add up to `seconds`.
  double compute = 0, tensor = 0;  // all micro-batches' operators, and collectives between them
  double bubble = 0;               // waiting for other stages, messages included
  double gradients = 0;            // data-parallel collectives that are not hidden
  double optimizer = 0;            // update, gradient norm, and ZeRO's gathering
};

// The group of a collective: `ranks` ranks that lie `stride` apart.
struct GroupShape {
  uint32_t ranks = 1, stride = 1;
};
double collective_seconds(CollectiveKind collective, double bytes, const GroupShape& group, const ClusterShape& cluster,
                          const LinkEfficiency& links);

// Throws what check_config and step_costs throw.
StepEstimate estimate_step(const TrainConfig& config, const Device& device, const ClusterShape& cluster);

}  // namespace banyan::predict
