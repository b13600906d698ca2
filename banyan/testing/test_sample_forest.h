// Forests to run in tests: valid schedules of every kind and shape, from a seed. For tests only.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan::testing {

enum class TreeShape { random, path, star };

struct SampleForestOptions {
  CollectiveKind kind = CollectiveKind::all_reduce;
  uint32_t ranks = 4;
  uint32_t trees_per_root = 2;         // of unequal shares
  uint32_t root = 0;                   // of broadcast and reduce
  std::vector<uint64_t> weights = {};  // of allgather and reduce-scatter; empty: all equal
  uint32_t bystanders = 0;             // ranks of the fabric that do not take part, numbered before those that do
  TreeShape shape = TreeShape::random;
  uint64_t seed = 1;
};

// On a fabric that links every rank with every other.
Schedule sample_forest(const SampleForestOptions& options);

}  // namespace banyan::testing
