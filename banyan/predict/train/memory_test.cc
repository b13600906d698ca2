#include "banyan/predict/train/memory.h"

#include "banyan/predict/train/layers.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

TrainConfig gpt175(uint32_t tp, uint32_t pp, uint32_t dp) {
  TrainConfig config;
  config.model = train_model("gpt3-175b");
  config.tp = tp, config.pp = pp, config.dp = dp;
  config.micro_batch = 1, config.global_batch = uint64_t{64} * dp;
  return config;
}

// Korthikanti et al. 2022, table 2.
TEST(Memory, OfALayersActivationsIsTheirTable) {
  for (const uint32_t micro : {1u, 4u}) {
    for (const uint32_t t : {1u, 2u, 8u}) {
      TrainConfig config = gpt175(t, 1, 1);
      config.micro_batch = micro, config.global_batch = 64;
      const double s = 2048, b = micro, h = 12288, a = 96;
      const double sbh = s * b * h;
      SCOPED_TRACE("b " + std::to_string(micro) + ", t " + std::to_string(t));
      EXPECT_DOUBLE_EQ(layer_activation_bytes(config), sbh * (10 + 24.0 / t + 5 * a * s / (h * t)));
      config.recompute = Recompute::selective;
      EXPECT_DOUBLE_EQ(layer_activation_bytes(config), sbh * (10 + 24.0 / t));
      config.recompute = Recompute::full;
      EXPECT_DOUBLE_EQ(layer_activation_bytes(config), 2 * sbh);
      if (t == 1) continue;
      config.recompute = Recompute::none;
      config.sequence_parallel = true;
      EXPECT_DOUBLE_EQ(layer_activation_bytes(config), sbh / t * (34 + 5 * a * s / h));
      config.recompute = Recompute::selective;
      EXPECT_DOUBLE_EQ(layer_activation_bytes(config), sbh / t * 34);
    }
  }
}

// Rajbhandari et al. 2020, figure 1: 7.5 B parameters on 64 devices, K = 12: 120 GB, 31.4, 16.6, 1.9.
TEST(Memory, OfStatesIsThatOfZero) {
  TrainConfig config;
  config.model = gpt_model({.layers = 10, .hidden = 512, .sequence = 128, .vocabulary = 1000});
  config.dp = 64, config.global_batch = 64;
  const double psi = config.model.parameters();
  const double expected[] = {16 * psi, 4 * psi + 12 * psi / 64, 2 * psi + 14 * psi / 64, 16 * psi / 64};
  for (uint32_t zero = 0; zero <= 3; ++zero) {
    config.zero = zero;
    const StageMemory memory = stage_memory(config, 0);
    EXPECT_NEAR(memory.parameters + memory.gradients + memory.optimizer, expected[zero], 1e-9 * psi) << "ZeRO " << zero;
  }
  EXPECT_NEAR(7.5 * (4 + 12.0 / 64), 31.4, 0.05);
}

TEST(Memory, TheFirstStageHoldsActivationsOfAllStagesBehindIt) {
  const TrainConfig config = gpt175(8, 8, 1);
  const double first = stage_memory(config, 0).activations, second = stage_memory(config, 1).activations;
  EXPECT_NEAR((first - second) / (12 * layer_activation_bytes(config)), 1, 0.1);  // embedding's mask besides
}

TEST(Memory, OfAllStagesAddsUpToTheModel) {
  for (const char* name : {"gpt3-175b", "llama2-70b"}) {
    TrainConfig config = gpt175(8, 8, 1);
    config.model = train_model(name);
    double parameters = 0;
    for (uint32_t stage = 0; stage < 8; ++stage) parameters += 8 * stage_parameters(config, stage).all();
    // Norms and some biases are on all 8 slices, and the last stage has a copy of a tied embedding.
    EXPECT_NEAR(parameters / config.model.parameters(), 1, 0.005) << name;
  }
  TrainConfig config = gpt175(1, 1, 8);
  config.model = train_model("mixtral-8x7b");
  config.ep = 8;
  const StageParameters all = stage_parameters(config, 0);
  EXPECT_NEAR(all.dense + 8 * all.experts, config.model.parameters(), 1);
}

TEST(Memory, SaysWhatWouldMakeItFit) {
  const Device& a100 = DeviceTable::builtin().at("a100-80g");
  const TrainConfig config = gpt175(8, 8, 8);
  const MemoryReport report = memory_report(config, a100);
  EXPECT_FALSE(report.fits);
  EXPECT_EQ(report.worst, 0u);
  ASSERT_FALSE(report.mends.empty());
  for (const MemoryMend& mend : report.mends) EXPECT_TRUE(memory_report(mend.config, a100).fits) << mend.option;
  EXPECT_THAT(report.mends, ::testing::Contains(::testing::Field(&MemoryMend::option, "--recompute full")));
  TrainConfig mended = config;
  mended.recompute = Recompute::full;
  EXPECT_TRUE(memory_report(mended, a100).fits);
  EXPECT_TRUE(memory_report(mended, a100).mends.empty());
  // 175 B on 64 devices: 2.8 TB of states do not fit into 64 * 80 GiB less activations... but do on 512.
  EXPECT_FALSE(memory_report(gpt175(8, 1, 64), a100).fits);
}

}  // namespace
}  // namespace banyan::predict
