#include "banyan/predict/codes/bucket_cuts.h"

#include <algorithm>
#include <limits>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

struct State {
  double late = 0, free_at = 0;  // the backward pass; the link
  uint32_t first = 0, from = 0;  // of its last bucket: the first tensor, and the state at that tensor
};

// Those that no other betters in both.
void keep_best(std::vector<State>& states) {
  std::sort(states.begin(), states.end(),
            [](const State& a, const State& b) { return a.late != b.late ? a.late < b.late : a.free_at < b.free_at; });
  size_t kept = 0;
  double least = std::numeric_limits<double>::infinity();
  for (const State& state : states) {
    if (state.free_at >= least) continue;
    least = state.free_at;
    states[kept++] = state;
  }
  states.resize(kept);
}

}  // namespace

BucketCuts cut_buckets(std::span<const GradientBucket> tensors, const CutCosts& costs, uint32_t most) {
  const auto count = static_cast<uint32_t>(tensors.size());
  CHECK(count > 0) << "no tensors";
  if (most == 0 || most > count) most = count;
  std::vector<double> bytes(count + 1, 0), ready(count + 1, 0);
  for (uint32_t i = 0; i < count; ++i) {
    bytes[i + 1] = bytes[i] + tensors[i].bytes;
    ready[i + 1] = ready[i] + tensors[i].backward;
  }
  // By buckets, then tensors.
  std::vector<std::vector<std::vector<State>>> states(most + 1, std::vector<std::vector<State>>(count + 1));
  states[0][0] = {{}};
  BucketCuts best{.sizes = {}, .seconds = std::numeric_limits<double>::infinity()};
  uint32_t buckets = 0;
  size_t last = 0;
  for (uint32_t y = 1; y <= most; ++y) {
    for (uint32_t end = y; end <= count; ++end) {
      std::vector<State>& here = states[y][end];
      for (uint32_t begin = y - 1; begin < end; ++begin) {
        const double size = bytes[end] - bytes[begin];
        for (uint32_t from = 0; from < states[y - 1][begin].size(); ++from) {
          const State& before = states[y - 1][begin][from];
          const double late = before.late + costs.encode_fixed + costs.encode_per_byte * size;
          const double start = std::max(ready[end] + late, before.free_at);
          here.push_back({late, start + costs.link_fixed + costs.link_per_byte * size, begin, from});
        }
      }
      keep_best(here);
    }
    for (size_t i = 0; i < states[y][count].size(); ++i) {
      const double seconds = states[y][count][i].free_at;  // never before the backward pass is over
      if (seconds >= best.seconds) continue;
      best.seconds = seconds;
      buckets = y;
      last = i;
    }
  }
  uint32_t end = count;
  for (uint32_t y = buckets; y > 0; --y) {
    const State& state = states[y][end][last];
    best.sizes.push_back(end - state.first);
    end = state.first;
    last = state.from;
  }
  std::reverse(best.sizes.begin(), best.sizes.end());
  return best;
}

std::vector<GradientBucket> joined(std::span<const GradientBucket> tensors, std::span<const uint32_t> sizes) {
  std::vector<GradientBucket> buckets;
  size_t next = 0;
  for (const uint32_t size : sizes) {
    GradientBucket& bucket = buckets.emplace_back();
    for (uint32_t i = 0; i < size; ++i, ++next) {
      bucket.bytes += tensors[next].bytes;
      bucket.backward += tensors[next].backward;
    }
  }
  CHECK_EQ(next, tensors.size());
  return buckets;
}

}  // namespace banyan::predict
