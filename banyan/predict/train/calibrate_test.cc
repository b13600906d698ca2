#include "banyan/predict/train/calibrate.h"

#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

constexpr uint64_t kSeed = 5;

// Rows that a device of known efficiencies would have measured, with noise.
RowSet measure(const Device& truth, std::span<const uint32_t> widths, Recompute recompute, double noise) {
  std::mt19937_64 random(kSeed);
  std::normal_distribution<double> error(0, noise);
  RowSet set{.name = "measured", .rows = {}, .cluster = truth.cluster, .recompute = {}};
  for (const uint32_t width : widths) {
    for (const uint32_t tp : {1u, 2u, 8u, 16u}) {
      for (const uint32_t pp : {1u, 2u}) {
        for (const uint64_t micro : {1u, 4u, 8u}) {
          TrainRow row;
          row.config.model =
              gpt_model({.layers = 8, .hidden = width, .heads = 16, .sequence = 1024, .vocabulary = 50257});
          row.config.tp = tp, row.config.pp = pp, row.config.dp = 32 / tp / pp;
          row.config.micro_batch = micro, row.config.global_batch = micro * row.config.dp * 4;
          TrainConfig run = row.config;
          run.recompute = recompute;
          row.seconds = estimate_step(run, truth, truth.cluster).seconds * std::exp(error(random));
          row.line = static_cast<uint32_t>(set.rows.size() + 2);
          set.rows.push_back(row);
        }
      }
    }
  }
  return set;
}

Device truth() {
  Device device = DeviceTable::builtin().at("a100");
  device.efficiency.matrix = 0.7;
  device.efficiency.memory = 0.8;
  device.efficiency.unaligned = 0.3;
  device.efficiency.kernel_gap = Picoseconds(4'000'000);
  device.efficiency.host_launch = Picoseconds(20'000'000);
  device.links = {.scale_up = 0.5, .network = 0.8, .latency = Picoseconds(20'000'000)};
  return device;
}

TEST(Calibrate, FindsTheEfficienciesThatRowsWereMeasuredWith) {
  constexpr uint32_t kWidths[] = {1024, 2048, 4096};
  const RowSet set = measure(truth(), kWidths, Recompute::none, 0);
  RowSet known = set;
  known.recompute = Recompute::none;
  const Calibration result =
      calibrate(DeviceTable::builtin().at("a100"), {&known, 1}, {.most_steps = 3000, .progress = {}});
  EXPECT_LT(result.sets[0].error.mean, 0.02);
  EXPECT_GT(result.sets[0].error.rank_correlation, 0.999);
  EXPECT_NEAR(result.device.efficiency.matrix, 0.7, 0.03);
  EXPECT_NEAR(result.device.efficiency.memory, 0.8, 0.06);
  EXPECT_NEAR(static_cast<double>(result.device.efficiency.host_launch.count()) * 1e-6, 20, 1);
  EXPECT_NEAR(result.device.links.network, 0.8, 0.1);
  ASSERT_TRUE(result.sets[0].held_out);
  EXPECT_LT(result.sets[0].held_out->mean, 0.03) << "models that were left out are predicted";
}

TEST(Calibrate, BearsNoiseAndRowsThatMeasuredSomethingElse) {
  constexpr uint32_t kWidths[] = {1024, 4096};
  RowSet set = measure(truth(), kWidths, Recompute::none, 0.05);
  set.recompute = Recompute::none;
  set.rows[7].seconds *= 3;
  const Calibration result = calibrate(DeviceTable::builtin().at("a100"), {&set, 1});
  EXPECT_LT(result.sets[0].error.median, 0.06);
  EXPECT_EQ(result.sets[0].error.worst_row, 7u);
  EXPECT_LT(result.sets[0].held_out->median, 0.10);
}

TEST(Calibrate, FindsOutWhatWasRecomputed) {
  constexpr uint32_t kWidths[] = {1024, 4096};
  std::vector<RowSet> sets = {measure(truth(), kWidths, Recompute::none, 0.01),
                              measure(truth(), kWidths, Recompute::full, 0.01)};
  const Calibration result =
      calibrate(DeviceTable::builtin().at("a100"), sets, {.cross_validate = false, .progress = {}});
  EXPECT_NE(result.sets[0].recompute, Recompute::full);
  EXPECT_EQ(result.sets[1].recompute, Recompute::full);
  for (const SetResult& set : result.sets) EXPECT_LT(set.error.mean, 0.03);
}

TEST(Calibrate, IsDeterministic) {
  constexpr uint32_t kWidths[] = {1024};
  RowSet set = measure(truth(), kWidths, Recompute::none, 0.02);
  set.recompute = Recompute::none;
  const Device& a100 = DeviceTable::builtin().at("a100");
  const CalibrateOptions quick{.cross_validate = false, .most_steps = 200, .progress = {}};
  EXPECT_EQ(format_calibrated(calibrate(a100, {&set, 1}, quick).device, "x"),
            format_calibrated(calibrate(a100, {&set, 1}, quick).device, "x"));
  EXPECT_THROW(calibrate(a100, {}, quick), Error);
}

TEST(Calibrate, RankCorrelationIsSpearmans) {
  EXPECT_DOUBLE_EQ(spearman(std::vector<double>{1, 2, 3, 4}, std::vector<double>{10, 20, 30, 40}), 1);
  EXPECT_DOUBLE_EQ(spearman(std::vector<double>{1, 2, 3, 4}, std::vector<double>{4, 3, 2, 1}), -1);
  // Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24).
  EXPECT_NEAR(spearman(std::vector<double>{1, 2, 3, 4, 5}, std::vector<double>{20, 10, 40, 30, 50}), 0.8, 1e-12);
  // Equal values share their rank: 1, 2.5, 2.5, 4 against 1 2 3 4.
  EXPECT_NEAR(spearman(std::vector<double>{1, 2, 2, 4}, std::vector<double>{1, 2, 3, 4}), 4.5 / std::sqrt(4.5 * 5),
              1e-12);
}

TrainConfig base() {
  TrainConfig config;
  config.model.vocabulary = 50257;
  return config;
}

constexpr const char* kHeading =
    "Parameters (billion),# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n";

TEST(Rows, AreReadByTheirHeading) {
  const std::vector<TrainRow> rows =
      parse_train_rows(std::string(kHeading) + "3.6,64,512,8,3072,32,30,2048,2,16,2,3566.5\n", base());
  ASSERT_EQ(rows.size(), 1u);
  const TrainConfig& config = rows[0].config;
  EXPECT_DOUBLE_EQ(rows[0].seconds, 3.5665);
  EXPECT_EQ(config.model.layers, 30u);
  EXPECT_EQ(config.model.vocabulary, 50257u);
  EXPECT_EQ(config.tp, 2u);
  EXPECT_EQ(config.dp, 16u);
  EXPECT_EQ(config.pp, 2u);
  EXPECT_EQ(config.micro_batches(), 4u);
  EXPECT_FALSE(rows[0].says_recompute);
  const std::vector<TrainRow> other = parse_train_rows(
      "Step-Time (s),Global_Batch,MicroBatch,hidden,heads,layers,seq_len,vocab,recompute\n2.5,8,2,64,4,3,16,100,full\n",
      base());
  EXPECT_DOUBLE_EQ(other[0].seconds, 2.5);
  EXPECT_EQ(other[0].config.recompute, Recompute::full);
  EXPECT_EQ(other[0].config.model.vocabulary, 100u);
}

TEST(Rows, TellHowAStepWasMade) {
  const std::string text =
      "time (ms),global batch,micro batch,hidden,heads,layers,seq,tp,zero,Sequence Parallel,Flash-Attention,MFU,note\n"
      "9,8,1,1024,16,12,1024,2,1,yes,true,0.4,x\n9,8,1,1024,16,12,1024,2,0,0,false,0.4,y\n";
  const std::vector<TrainRow> rows = parse_train_rows(text, base());
  EXPECT_EQ(rows[0].config.zero, 1u);
  EXPECT_TRUE(rows[0].config.sequence_parallel && rows[0].config.fused_attention);
  EXPECT_FALSE(rows[1].config.sequence_parallel || rows[1].config.fused_attention);
  EXPECT_EQ(unknown_train_columns(text), (std::vector<std::string>{"MFU", "note"}));
  EXPECT_TRUE(unknown_train_columns(kHeading).size() == 1) << "parameters follow from the shape";
}

TEST(Rows, NamesTheLineOfAMistake) {
  const auto error_of = [](const std::string& text) {
    try {
      parse_train_rows(text, base());
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(error_of(std::string(kHeading) + "3.6,64,512,8,3072,32,30,2048,2,16,3,3566.5\n"),
              HasSubstr("says 64 GPUs"));
  EXPECT_THAT(error_of(std::string(kHeading) + "\n3.6,64,512,7,3072,32,30,2048,2,16,2,3566.5\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("choose 560")));
  EXPECT_THAT(error_of(std::string(kHeading) + "3.6,64,512,8,3072\n"), HasSubstr("has no column"));
  EXPECT_THAT(error_of(std::string(kHeading) + "3.6,64,512,8,x,32,30,2048,2,16,2,3566.5\n"), HasSubstr("'x'"));
  EXPECT_THAT(error_of("time,global batch\n"), HasSubstr("needs a unit"));
  EXPECT_THAT(error_of("time (ms),global batch\n"), HasSubstr("no column 'micro batch'"));
  EXPECT_THAT(error_of(kHeading), HasSubstr("holds no rows"));
}

}  // namespace
}  // namespace banyan::predict
