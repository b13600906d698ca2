// Predictions made up by formula, for tests of what shows them: nothing here was simulated, but everything adds up, and
// every number depends on its rank, link and position.
#pragma once

#include <string>
#include <vector>

#include "banyan/predict/report/report_input.h"

namespace banyan::predict::sample {

struct StepShape {
  std::string fabric = "dgx-a100:1";  // a generator's spec
  uint32_t stages = 4;                // of the pipeline
  uint32_t micro_batches = 8;
  uint32_t layers = 4;  // per stage; each is two compute spans and a collective, forward and back
  uint32_t load_steps = 120;
  uint32_t ranks_with_spans = UINT32_MAX;  // the first so many
};
// A training step: forward and backward of every micro-batch on a compute stream, tensor-parallel collectives on a
// second one, messages between stages on a third, gradients at the end. All ranks of one job.
ReportInput training_step(const StepShape& shape);

ReportInput all_reduce_on_one_box();  // 8 ranks, with points of a sweep and what-if
ReportInput sweep_only();             // points of three plans, nothing else
ReportInput three_jobs();             // of two tenants, on four boxes, with slow-downs
ReportInput links_that_change();      // three jobs; cables fail, return and slow down, one job fails
ReportInput stopped_early();          // incomplete
ReportInput hostile_names();          // markup, quotes, control characters, right-to-left, broken UTF-8
ReportInput nothing();                // an empty prediction

struct Named {
  std::string name;
  ReportInput input;
};
// All of the above and some large ones: 1,024 ranks, 100,000 spans, 16,384 ranks.
std::vector<Named> all_samples();

}  // namespace banyan::predict::sample
