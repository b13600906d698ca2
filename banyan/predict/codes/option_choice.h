// Chooses one of several options for each bucket of gradients, so that the backward pass with all its reductions ends
// soonest in the model of bucket_walk.h.
//
// Greedy, after Espresso (EuroSys 2023, section 4.3): buckets by size, the largest first, of equal ones the one that is
// there last; each tries all options with the others as they are, and keeps the best. A hidden bucket with the first
// option is left as it is (the offload lemma: what leaves the busiest resource before its last idle time does not move
// the end). Then all over again, until nothing changes or 16 rounds are done. Besides, it begins from every option for
// all buckets as well as from the first, and the best of these ends counts: so it is never worse than any one option
// for all.
//
// A test holds it within 5 % of the best of all choices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/predict/codes/bucket_walk.h"

namespace banyan::predict {

struct OptionChoice {
  std::vector<uint32_t> options = {};  // by bucket
  double seconds = 0;
};

// `options`: at least one; the first is what is done where none gains. O(rounds * options^2 * buckets) walks.
OptionChoice choose_options(std::span<const GradientBucket> buckets, std::span<const BucketOption> options);

}  // namespace banyan::predict
