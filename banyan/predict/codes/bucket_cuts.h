// Cuts a list of gradient tensors into the best buckets, exactly: Cupcake's programme (Wang et al., MLSys 2023).
//
// Tensors come in the order of the backward pass; a bucket is some consecutive ones, ready as soon as its last tensor
// is. It costs a fixed and a linear time of the backward pass (encoding), and then a fixed and a linear time of the
// link (latency, transfer), in order. Few buckets save fixed times; many begin sooner. After the first i tensors in y
// buckets two numbers decide all that may come: by how much the backward pass is late, and when the link is free. Only
// such pairs matter that no other pair betters in both numbers: they are kept for each (i, y), and extended by each
// next bucket. Nothing is rounded, so the least end is found; a test compares with all cuts of up to 16 tensors.
//
// O(T^2 Y P) for T tensors, Y buckets at most and P pairs, which are few.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/predict/codes/bucket_walk.h"

namespace banyan::predict {

struct CutCosts {
  double encode_fixed = 0, encode_per_byte = 0;  // of the backward pass
  double link_fixed = 0, link_per_byte = 0;
};

struct BucketCuts {
  std::vector<uint32_t> sizes = {};  // tensors of each bucket; together all
  double seconds = 0;                // until the backward pass is over and the link is free
};

// Into at most `most` buckets (0: as many as there are tensors). At least one tensor.
BucketCuts cut_buckets(std::span<const GradientBucket> tensors, const CutCosts& costs, uint32_t most = 0);

// The buckets of a cut.
std::vector<GradientBucket> joined(std::span<const GradientBucket> tensors, std::span<const uint32_t> sizes);

}  // namespace banyan::predict
