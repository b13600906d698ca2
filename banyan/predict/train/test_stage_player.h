// For tests: plays a generated training step without a fabric. Ranks of a stage do the same at the same time, so one of
// each stage is played; a collective takes what collective_seconds says, a message what a link takes.
//
// Shares with the code under test the time of one collective, and nothing of the order or the sums.
#pragma once

#include "banyan/job/job.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/config.h"

namespace banyan::testing {

// Seconds until all is done, or a negative number when nothing can go on before.
double play_stages(const Job& job, const predict::TrainConfig& config, const predict::Device& device,
                   const predict::ClusterShape& cluster);

}  // namespace banyan::testing
