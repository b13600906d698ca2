#include "banyan/predict/train/pipeline.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

// The k-th forward pass of a stage: groups of `stages` micro-batches go through chunk 0, then 1, ...
PipelineStep forward_step(const PipelineShape& shape, uint64_t k) {
  if (shape.chunks == 1) return {.micro_batch = static_cast<uint32_t>(k), .chunk = 0, .backward = false};
  const uint64_t group = uint64_t{shape.stages} * shape.chunks;
  return {.micro_batch = static_cast<uint32_t>(k / group * shape.stages + k % shape.stages),
          .chunk = static_cast<uint32_t>(k % group / shape.stages),
          .backward = false};
}

PipelineStep backward_step(const PipelineShape& shape, uint64_t k) {
  PipelineStep step = forward_step(shape, k);
  step.chunk = shape.chunks - 1 - step.chunk;
  step.backward = true;
  return step;
}

// Forward passes before the first backward pass.
uint64_t warm_up_of(const PipelineShape& shape, uint32_t stage) {
  const uint64_t behind = shape.stages - 1 - stage, all = uint64_t{shape.micro_batches} * shape.chunks;
  return std::min(all, shape.chunks == 1 ? behind : 2 * behind + uint64_t{shape.chunks - 1} * shape.stages);
}

}  // namespace

std::vector<PipelineStep> pipeline_order(const PipelineShape& shape, uint32_t stage) {
  CHECK(stage < shape.stages);
  CHECK(shape.chunks == 1 || shape.micro_batches % shape.stages == 0);
  const uint64_t all = uint64_t{shape.micro_batches} * shape.chunks;
  const uint64_t warm_up = warm_up_of(shape, stage);
  std::vector<PipelineStep> order;
  order.reserve(2 * all);
  uint64_t forward = 0;
  for (; forward < warm_up; ++forward) order.push_back(forward_step(shape, forward));
  for (uint64_t backward = 0; backward < all; ++backward) {
    if (forward < all) order.push_back(forward_step(shape, forward++));
    order.push_back(backward_step(shape, backward));
  }
  return order;
}

uint32_t most_in_flight(const PipelineShape& shape, uint32_t stage) {
  // After the warm-up each forward pass is followed by a backward pass.
  const uint64_t all = uint64_t{shape.micro_batches} * shape.chunks;
  return static_cast<uint32_t>(std::min(warm_up_of(shape, stage) + 1, all));
}

}  // namespace banyan::predict
