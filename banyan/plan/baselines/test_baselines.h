// All baselines, for tests that try every one.
#pragma once

#include <array>

#include "banyan/plan/baselines/baselines.h"

namespace banyan::plan {

constexpr std::array kAllBaselines = {Baseline::ring,
                                      Baseline::bidirectional_ring,
                                      Baseline::binary_tree,
                                      Baseline::double_binary_tree,
                                      Baseline::recursive_doubling,
                                      Baseline::hierarchical_ring,
                                      Baseline::nccl_rings};

}  // namespace banyan::plan
