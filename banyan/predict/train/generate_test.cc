#include "banyan/predict/train/generate.h"

#include "banyan/job/check.h"
#include "banyan/predict/train/estimate.h"
#include "banyan/predict/train/layers.h"
#include "banyan/predict/train/test_narayanan.h"
#include "banyan/predict/train/test_stage_player.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

// FLOPs of all nodes of all ranks.
double total_flop(const Job& job) {
  std::vector<double> of_program;
  for (const job::Program& program : job.programs()) {
    double sum = 0;
    for (const job::Node& node : program.nodes) sum += node.flop;
    of_program.push_back(sum);
  }
  double sum = 0;
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) sum += of_program[job.program_number(rank)];
  return sum;
}

const Device& a100() { return DeviceTable::builtin().at("a100-80g"); }

constexpr GptShape kShape{.layers = 8, .hidden = 256, .heads = 8, .sequence = 128, .vocabulary = 1024};

struct Case {
  std::string name;
  TrainConfig config;
};

TrainConfig small(uint32_t tp, uint32_t pp, uint32_t dp, uint32_t micro_batches = 4) {
  TrainConfig config;
  config.model = gpt_model(kShape);
  config.tp = tp, config.pp = pp, config.dp = dp;
  config.micro_batch = 2, config.global_batch = uint64_t{2} * dp * micro_batches;
  return config;
}

// Every way of training that a small model can show.
std::vector<Case> cases() {
  std::vector<Case> list;
  const auto add = [&](const std::string& name, TrainConfig config, auto change) {
    change(config);
    list.push_back({name, config});
  };
  add("alone", small(1, 1, 1), [](TrainConfig&) {});
  add("tp", small(4, 1, 1), [](TrainConfig&) {});
  add("sequence parallel", small(4, 1, 2), [](TrainConfig& c) { c.sequence_parallel = true; });
  add("dp", small(1, 1, 4), [](TrainConfig&) {});
  add("dp overlapped", small(1, 1, 4), [](TrainConfig& c) { c.overlap_gradients = true, c.bucket = Bytes(1 << 20); });
  add("pp", small(1, 4, 1), [](TrainConfig&) {});
  add("pp of few", small(1, 4, 1, 2), [](TrainConfig&) {});
  add("interleaved", small(1, 4, 1, 8), [](TrainConfig& c) { c.interleave = 2; });
  add("interleaved, two stages", small(1, 2, 2, 8),
      [](TrainConfig& c) { c.interleave = 4, c.overlap_gradients = true; });
  add("3D", small(2, 2, 2), [](TrainConfig&) {});
  add("3D, all on", small(2, 4, 2, 8), [](TrainConfig& c) {
    c.interleave = 2, c.sequence_parallel = true, c.recompute = Recompute::full, c.overlap_gradients = true, c.zero = 1;
  });
  add("uneven layers", small(1, 3, 1), [](TrainConfig&) {});
  add("full recompute", small(2, 2, 1), [](TrainConfig& c) { c.recompute = Recompute::full; });
  add("selective recompute", small(2, 2, 1), [](TrainConfig& c) { c.recompute = Recompute::selective; });
  for (const uint32_t zero : {1u, 2u, 3u})
    add("ZeRO " + std::to_string(zero), small(2, 1, 4), [&](TrainConfig& c) { c.zero = zero; });
  const auto mix = [](TrainConfig& c) {
    c.model.experts = 8, c.model.top_k = 2, c.ep = 4;
    c.model.gated = true, c.model.biases = c.model.tied = c.model.positions = false;
  };
  add("experts", small(1, 2, 8), mix);
  add("experts in slices", small(2, 1, 4), [&](TrainConfig& c) { mix(c), c.sequence_parallel = true, c.zero = 1; });
  add("experts, ZeRO 3", small(1, 1, 8), [&](TrainConfig& c) { mix(c), c.zero = 3; });
  return list;
}

double sum_of_bytes(const Job& job, uint32_t rank, const std::set<std::string>& names) {
  double sum = 0;
  for (const job::Node& node : job.program(rank).nodes) {
    if (names.count(job.name_of(node))) sum += static_cast<double>(node.bytes);
  }
  return sum;
}

TEST(Generate, RanksAgreeWithOneAnother) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const Job job = generate_training_step(each.config, a100());
    EXPECT_EQ(job.rank_count(), each.config.ranks());
    EXPECT_EQ(job.programs().size(), each.config.pp);
    for (const job::Finding& finding : check_job(job)) ADD_FAILURE() << finding.text;
  }
}

// Narayanan et al. 2021, equation 3, over all ranks: however the work is split.
TEST(Generate, ComputesAsManyFlopAsTheClosedFormula) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const TrainConfig& config = each.config;
    const double flop = total_flop(generate_training_step(config, a100()));
    const double batch = static_cast<double>(config.global_batch);
    if (config.model.experts > 0) {
      // Attention as in a GPT without its MLP, top_k gated MLPs of 3 matrices, the router; forward and twice backward.
      const double s = kShape.sequence, h = kShape.hidden, l = kShape.layers, f = config.model.ffn;
      const double layer = 8 * s * h * h + 4 * s * s * h + 2 * (2 * 3 * s * h * f) + 2 * s * h * 8;
      // Without sequence parallelism each slice routes all tokens; here either tp is 1 or the sequence is split.
      EXPECT_NEAR(flop / (3 * batch * (l * layer + 2 * s * h * kShape.vocabulary)), 1, 1e-12);
      continue;
    }
    double formula = narayanan_flop(kShape, batch, config.recompute == Recompute::full);
    // Korthikanti et al. 2022, section 6: selective recomputation repeats the 4 B s^2 h of scores and context.
    if (config.recompute == Recompute::selective) formula += 4.0 * batch * 128 * 128 * 256 * 8;
    EXPECT_NEAR(flop / formula, 1, 1e-12);
  }
}

// Shoeybi et al. 2019: two allreduces of s b h a layer forward and two backward; full recomputation repeats the first
// two.
TEST(Generate, TensorParallelCollectivesMoveTheHiddenState) {
  for (const bool full : {false, true}) {
    TrainConfig config = small(4, 1, 1);
    if (full) config.recompute = Recompute::full;
    const Job job = generate_training_step(config, a100());
    const double hidden = 2.0 * 2 * 128 * 256, layers = 8, micro_batches = 4;
    // Embedding forward, output layer backward.
    EXPECT_DOUBLE_EQ(sum_of_bytes(job, 0, {"tensor allreduce"}),
                     hidden * micro_batches * (layers * (full ? 6 : 4) + 2));
    // Korthikanti et al. 2022, section 4.2.2: an allgather and a reduce-scatter for each allreduce.
    config.sequence_parallel = true;
    const Job split = generate_training_step(config, a100());
    EXPECT_DOUBLE_EQ(sum_of_bytes(split, 0, {"gather sequence"}),
                     hidden * micro_batches * (layers * (full ? 6 : 4) + 2));
    EXPECT_DOUBLE_EQ(sum_of_bytes(split, 0, {"scatter sequence"}),
                     hidden * micro_batches * (layers * (full ? 6 : 4) + 2));
  }
}

TEST(Generate, GradientsAreReducedOnce) {
  for (const Case& each : cases()) {
    const TrainConfig& config = each.config;
    if (config.dp == 1) continue;
    SCOPED_TRACE(each.name);
    const Job job = generate_training_step(config, a100());
    for (uint32_t stage = 0; stage < config.pp; ++stage) {
      const StageParameters parameters = stage_parameters(config, stage);
      const uint32_t rank = rank_number(config, {stage, 0, 0});
      const double times = config.zero >= 2 ? static_cast<double>(config.micro_batches()) : 1;
      EXPECT_NEAR(sum_of_bytes(job, rank, {"reduce gradients"}), 2 * parameters.dense * times, 64);
      const double experts = config.dp / config.ep > 1 ? 2 * parameters.experts * times : 0;
      EXPECT_NEAR(sum_of_bytes(job, rank, {"reduce experts"}), experts, 64);
    }
  }
}

// Rajbhandari et al. 2020, section 7: ZeRO 1 and 2 move as much as an allreduce, ZeRO 3 half as much again (here once
// per micro-batch: parameters for forward and backward, gradients).
TEST(Generate, ZeroGathersParameters) {
  for (const uint32_t zero : {1u, 2u, 3u}) {
    TrainConfig config = small(1, 1, 4);
    config.zero = zero;
    const Job job = generate_training_step(config, a100());
    const double layers = 8 * layer_dense_parameters(config);
    const double expected = zero == 3 ? 2 * 2 * layers * 4 : 2 * stage_parameters(config, 0).dense;
    EXPECT_NEAR(sum_of_bytes(job, 0, {"gather parameters"}), expected, 64) << zero;
    for (const job::Node& node : job.program(0).nodes) {
      if (job.name_of(node) == "reduce gradients") {
        EXPECT_EQ(node.collective, CollectiveKind::reduce_scatter);
      }
    }
  }
}

TEST(Generate, ExpertsExchangeEachTokenTopKTimes) {
  TrainConfig config = small(1, 1, 4);
  config.model.experts = 8, config.model.top_k = 2, config.ep = 4;
  const Job job = generate_training_step(config, a100());
  const double routed = 2.0 * 2 * 128 * 256 * 2;
  EXPECT_DOUBLE_EQ(sum_of_bytes(job, 0, {"dispatch tokens", "return tokens"}),
                   routed * 8 * 4 * 4);  // layers, both ways and passes
}

TEST(Generate, RanksLieInMegatronsOrder) {
  const TrainConfig config = small(2, 2, 4);
  const Job job = generate_training_step(config, a100());
  EXPECT_EQ(rank_number(config, {1, 2, 1}), 1u * 8 + 2 * 2 + 1);
  std::map<std::string, std::vector<uint32_t>> groups;
  for (const job::Group& group : job.groups()) groups[group.name] = group.ranks;
  EXPECT_THAT(groups["tp 0"], ::testing::ElementsAre(0, 1));
  EXPECT_THAT(groups["dp 1"], ::testing::ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(groups["dp 2"], ::testing::ElementsAre(8, 10, 12, 14));
  EXPECT_THAT(groups["norm 1"], ::testing::ElementsAre(2, 3, 10, 11));
  EXPECT_THAT(groups["embedding 3"], ::testing::ElementsAre(3, 11));
  for (uint32_t rank = 0; rank < 16; ++rank) {
    const TrainRank where = train_rank(config, rank);
    EXPECT_EQ(rank_number(config, where), rank);
    EXPECT_EQ(job.program_number(rank), where.stage);
  }
}

TEST(Generate, ReplicasStandInBoxesWhereAllBoxesHoldSeveralAndAsMany) {
  EXPECT_EQ(replicas_in_box(small(1, 1, 8), 4), 4u);
  EXPECT_EQ(replicas_in_box(small(2, 1, 8), 8), 4u);
  EXPECT_EQ(replicas_in_box(small(2, 2, 4), 4), 2u);
  EXPECT_EQ(replicas_in_box(small(1, 1, 8), 0), 0u) << "nothing is known of boxes";
  EXPECT_EQ(replicas_in_box(small(1, 1, 8), 1), 0u) << "a box for each rank";
  EXPECT_EQ(replicas_in_box(small(1, 1, 8), 8), 0u) << "one box";
  EXPECT_EQ(replicas_in_box(small(1, 2, 4), 8), 0u) << "all replicas of a stage in one box";
  EXPECT_EQ(replicas_in_box(small(4, 1, 4), 4), 0u) << "one replica in each box";
  EXPECT_EQ(replicas_in_box(small(1, 1, 8), 3), 0u) << "boxes that differ";
  EXPECT_EQ(replicas_in_box(small(4, 1, 4), 6), 0u) << "a replica in two boxes";
}

TEST(Generate, CodesBetweenBoxesCarryAShareOfEachBucketThere) {
  TrainConfig config = small(2, 2, 4);
  config.overlap_gradients = true, config.bucket = Bytes(1 << 20);
  constexpr uint32_t kBoxRanks = 4;  // two replicas of two slices
  const TrainingStep dense = generate_compressed_step(config, a100(), {.box_ranks = kBoxRanks});
  const GradientCode int8{.cost = cost_on(a100(), {.code = codec::ValueCode::int8}), .is_between_boxes = true};
  GradientPlan plan{.box_ranks = kBoxRanks};
  for (const auto& stage : dense.reduced) plan.codes.emplace_back(stage.size(), int8);
  plan.codes[0][0] = std::nullopt;
  plan.codes[0][1]->is_between_boxes = false;
  ASSERT_GE(dense.reduced[0].size(), 3u) << "one of each way";
  const TrainingStep step = generate_compressed_step(config, a100(), plan);
  for (const job::Finding& finding : check_job(step.job)) ADD_FAILURE() << finding.text;
  std::map<std::string, std::vector<uint32_t>> groups;
  for (const job::Group& group : step.job.groups()) groups[group.name] = group.ranks;
  EXPECT_THAT(groups["dp in box 1"], ::testing::ElementsAre(1, 3));
  EXPECT_THAT(groups["gathering dp in box 7"], ::testing::ElementsAre(13, 15));
  EXPECT_THAT(groups["dp between boxes 2"], ::testing::ElementsAre(2, 6));
  EXPECT_THAT(groups["dp between boxes 4"], ::testing::ElementsAre(8, 12));
  // Rank 9 is slice 1 of the first replica of stage 1, all of whose buckets go in the code between boxes.
  std::vector<uint64_t> inside, gathered, across;
  for (const job::Node& node : step.job.program(9).nodes) {
    if (node.kind != job::NodeKind::collective) continue;
    const std::string& group = step.job.groups()[step.job.group(9, node.slot)].name;
    if (group == "dp in box 5") inside.push_back(node.bytes);
    if (group == "gathering dp in box 5") gathered.push_back(node.bytes);
    if (group == "dp between boxes 5") across.push_back(node.bytes);
    EXPECT_NE(group, "dp 3") << step.job.name_of(node);
  }
  ASSERT_EQ(inside.size(), dense.reduced[1].size());
  EXPECT_EQ(gathered, inside);
  for (size_t i = 0; i < inside.size(); ++i) {
    EXPECT_EQ(inside[i], dense.reduced[1][i].bytes);
    EXPECT_EQ(across[i], coded_bytes(int8.cost.codec, (dense.reduced[1][i].elements + 1) / 2));
  }
  EXPECT_THAT(members_of(config, dense.reduced[1][0]), ::testing::ElementsAre(8, 10, 12, 14));
}

TEST(Generate, ZeroAndExpertsHaveNoLevelBetweenBoxes) {
  TrainConfig config = small(1, 1, 8);
  config.zero = 1;
  const TrainingStep zero = generate_compressed_step(config, a100(), {.box_ranks = 4});
  for (const ReducedGradients& each : zero.reduced[0]) EXPECT_EQ(each.in_box, 0u);
  config.zero = 0;
  config.model.experts = 8, config.model.top_k = 2, config.ep = 4;
  const TrainingStep mixture = generate_compressed_step(config, a100(), {.box_ranks = 4});
  size_t of_experts = 0;
  for (const ReducedGradients& each : mixture.reduced[0]) {
    EXPECT_EQ(each.in_box, each.is_of_experts ? 0u : 4u);
    of_experts += each.is_of_experts;
  }
  EXPECT_GT(of_experts, 0u);
}

TEST(Generate, CutsBucketsAsItIsTold) {
  TrainConfig config = small(1, 1, 4);
  config.overlap_gradients = true, config.bucket = Bytes(1);
  const TrainingStep each = generate_compressed_step(config, a100(), {});
  ASSERT_EQ(each.units.size(), 1u);
  const std::vector<ReducedGradients>& units = each.units[0];
  ASSERT_EQ(each.reduced[0].size(), units.size()) << "buckets of a byte are units";
  ASSERT_GT(units.size(), 4u);
  for (size_t i = 0; i < units.size(); ++i) {
    EXPECT_EQ(units[i].bytes, each.reduced[0][i].bytes);
    EXPECT_DOUBLE_EQ(units[i].backward, each.reduced[0][i].backward);
  }
  const auto rest = static_cast<uint32_t>(units.size() - 4);
  config.bucket = Bytes(64 << 20);
  const TrainingStep cut = generate_compressed_step(config, a100(), {.cuts = {{1, 3, rest}}});
  ASSERT_EQ(cut.reduced[0].size(), 3u);
  EXPECT_EQ(cut.reduced[0][0].bytes, units[0].bytes);
  EXPECT_EQ(cut.reduced[0][1].bytes, units[1].bytes + units[2].bytes + units[3].bytes);
  EXPECT_NEAR(cut.reduced[0][1].backward, units[1].backward + units[2].backward + units[3].backward, 1e-12);
  EXPECT_EQ(cut.units[0].size(), units.size());
  EXPECT_EQ(generate_compressed_step(config, a100(), {.bucket = Bytes(1)}).reduced[0].size(), units.size());
  config.zero = 2;
  EXPECT_FALSE(cuts_buckets(config));
  EXPECT_TRUE(generate_compressed_step(config, a100(), {}).units[0].empty());
}

TEST(Generate, OverlappedGradientsGoInBuckets) {
  TrainConfig config = small(1, 1, 4);
  config.overlap_gradients = true, config.bucket = Bytes(4 << 20);
  const Job job = generate_training_step(config, a100());
  size_t buckets = 0;
  for (const job::Node& node : job.program(0).nodes) {
    if (job.name_of(node) != "reduce gradients") continue;
    ++buckets;
    EXPECT_LT(node.bytes, (4u << 20) + 2 * 2 * layer_dense_parameters(config));  // a bucket ends with a layer
  }
  EXPECT_GT(buckets, 2u);
  // Hidden behind the backward pass: sooner done than with all of it at the end.
  TrainConfig late = config;
  late.overlap_gradients = false;
  const ClusterShape slow{
      .box = 1, .scale_up = Bandwidth::gigabytes_per_second(1), .network = Bandwidth::gigabytes_per_second(2)};
  const double overlapped = testing::play_stages(job, config, a100(), slow);
  EXPECT_LT(overlapped, 0.95 * testing::play_stages(generate_training_step(late, a100()), late, a100(), slow));
}

// The estimate has been made without the graph, the player without the estimate.
TEST(Generate, TakesAsLongAsTheEstimateSays) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const ClusterShape cluster{
        .box = 4, .scale_up = Bandwidth::gigabytes_per_second(300), .network = Bandwidth::gigabytes_per_second(25)};
    const double played =
        testing::play_stages(generate_training_step(each.config, a100()), each.config, a100(), cluster);
    ASSERT_GT(played, 0) << "deadlock";
    const StepEstimate estimate = estimate_step(each.config, a100(), cluster);
    EXPECT_NEAR(estimate.seconds / played, 1, each.config.zero == 3 ? 0.10 : 0.02);
    EXPECT_NEAR(estimate.compute + estimate.tensor + estimate.bubble + estimate.gradients + estimate.optimizer,
                estimate.seconds, 1e-9 * estimate.seconds);
  }
}

TEST(Generate, RefusesAStepOfTooManyNodesBeforeItIsMade) {
  TrainConfig config = small(1, 1, 1);
  config.model.layers = 1000;
  config.micro_batch = 1, config.global_batch = 900'000;
  try {
    generate_training_step(config, a100());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

TEST(Generate, SixteenThousandRanksStaySmall) {
  TrainConfig config;
  config.model = train_model("llama3-405b");
  config.tp = 8, config.pp = 16, config.dp = 128;
  config.sequence_parallel = config.fused_attention = true;
  config.micro_batch = 1, config.global_batch = 2048;
  const Job job = generate_training_step(config, DeviceTable::builtin().at("h100"));
  EXPECT_EQ(job.rank_count(), 16384u);
  EXPECT_EQ(job.programs().size(), 16u);
  size_t nodes = 0;
  for (const job::Program& program : job.programs()) nodes += program.nodes.size();
  EXPECT_LT(nodes, 60'000u);
  EXPECT_EQ(job.groups().size(), 2048u + 128 + 128);  // tp, dp, norm; LLaMA ties no embedding
}

}  // namespace
}  // namespace banyan::predict
