#include "banyan/predict/train/pipeline.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

// Plays all stages; a chunk's forward pass takes `forward`, its backward pass `backward`, messages nothing. Returns
// when the last is done. A deadlock fails the test.
double makespan(const PipelineShape& shape, double forward, double backward) {
  const uint32_t chunks = shape.stages * shape.chunks;
  std::vector<std::vector<PipelineStep>> orders;
  for (uint32_t stage = 0; stage < shape.stages; ++stage) orders.push_back(pipeline_order(shape, stage));
  std::vector<std::vector<double>> done[2];
  for (auto& of_pass : done) of_pass.assign(chunks, std::vector<double>(shape.micro_batches, NAN));
  std::vector<size_t> next(shape.stages, 0);
  std::vector<double> free(shape.stages, 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t stage = 0; stage < shape.stages; ++stage) {
      if (next[stage] == orders[stage].size()) continue;
      const PipelineStep step = orders[stage][next[stage]];
      const uint32_t chunk = step.chunk * shape.stages + stage;
      double ready = 0;
      if (!step.backward && chunk > 0) ready = done[0][chunk - 1][step.micro_batch];
      if (step.backward)
        ready = chunk + 1 == chunks ? done[0][chunk][step.micro_batch] : done[1][chunk + 1][step.micro_batch];
      if (std::isnan(ready)) continue;
      free[stage] = std::max(free[stage], ready) + (step.backward ? backward : forward);
      done[step.backward ? 1 : 0][chunk][step.micro_batch] = free[stage];
      ++next[stage];
      moved = true;
    }
  }
  for (uint32_t stage = 0; stage < shape.stages; ++stage) EXPECT_EQ(next[stage], orders[stage].size()) << "deadlock";
  return *std::max_element(free.begin(), free.end());
}

TEST(Pipeline, EveryPassIsDoneOnceAndForwardBeforeBackward) {
  for (const PipelineShape& shape : {PipelineShape{1, 1, 5}, PipelineShape{4, 1, 2}, PipelineShape{4, 1, 9},
                                     PipelineShape{4, 3, 8}, PipelineShape{2, 2, 2}}) {
    for (uint32_t stage = 0; stage < shape.stages; ++stage) {
      std::set<std::pair<uint32_t, uint32_t>> forward, backward;
      for (const PipelineStep& step : pipeline_order(shape, stage)) {
        const std::pair key{step.chunk, step.micro_batch};
        EXPECT_LT(step.chunk, shape.chunks);
        EXPECT_LT(step.micro_batch, shape.micro_batches);
        EXPECT_TRUE(!step.backward || forward.count(key));
        EXPECT_TRUE((step.backward ? backward : forward).insert(key).second);
      }
      EXPECT_EQ(backward.size(), size_t{shape.chunks} * shape.micro_batches);
      EXPECT_EQ(forward, backward);
    }
  }
}

// Narayanan et al. 2021, sections 2.2.1 and 2.2.2: bubble over ideal time is (p - 1) / m, and (p - 1) / (v m)
// interleaved.
TEST(Pipeline, HasTheBubbleOfTheLiterature) {
  for (const uint32_t stages : {1u, 2u, 3u, 4u, 8u}) {
    for (const uint32_t chunks : {1u, 2u, 4u}) {
      for (const uint32_t groups : {1u, 2u, 6u}) {
        const PipelineShape shape{stages, chunks, stages * groups};
        if (chunks > 1 && stages == 1) continue;
        const double busy = shape.micro_batches * chunks * 3.0;
        const double bubble = makespan(shape, 1, 2) / busy - 1;
        EXPECT_NEAR(bubble, (stages - 1.0) / (chunks * shape.micro_batches), 1e-9)
            << stages << " stages, " << chunks << " chunks, " << groups;
      }
    }
  }
}

TEST(Pipeline, HoldsNoMoreThanItSays) {
  for (const PipelineShape& shape : {PipelineShape{1, 1, 5}, PipelineShape{4, 1, 2}, PipelineShape{4, 1, 9},
                                     PipelineShape{4, 3, 8}, PipelineShape{2, 2, 2}, PipelineShape{8, 2, 8}}) {
    for (uint32_t stage = 0; stage < shape.stages; ++stage) {
      uint32_t now = 0, most = 0;
      for (const PipelineStep& step : pipeline_order(shape, stage))
        most = std::max(most, step.backward ? --now : ++now);
      EXPECT_EQ(most_in_flight(shape, stage), most);
    }
  }
}

// 1F1B's point: stage i holds no more than p - i micro-batches, however many there are.
TEST(Pipeline, HoldsAsManyMicroBatchesAsStagesFollow) {
  for (uint32_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(most_in_flight({4, 1, 64}, stage), 4 - stage);
    EXPECT_EQ(most_in_flight({4, 1, 2}, stage), std::min(2u, 4 - stage));
  }
  // Korthikanti et al. 2022, section 4.2.3: interleaved, the first stage holds L (1 + (p-1)/(p v)) layers' worth, i.e.
  // p v + p - 1 chunks.
  EXPECT_EQ(most_in_flight({4, 3, 64}, 0), 4u * 3 + 4 - 1);
}

}  // namespace
}  // namespace banyan::predict
