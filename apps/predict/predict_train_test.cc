#include "apps/predict/predict_train.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "apps/parse.h"
#include "apps/predict/predict_calibrate.h"
#include "banyan/base/file.h"
#include "banyan/predict/cost/collective_cost.h"
#include "banyan/predict/train/generate.h"
#include "banyan/predict/train/model.h"
#include "banyan/testing/thrown.h"

namespace banyan::app {
namespace {

using ::testing::HasSubstr;

std::string error_of(const TrainOptions& options) {
  return testing::error_of([&] { make_train_setup(options); });
}

TrainOptions gpt3() {
  TrainOptions options;
  options.model = predict::train_model("gpt3-175b");
  options.tp = options.pp = options.dp = 8;
  options.global_batch = 1536;
  return options;
}

TEST(PredictTrain, MakesAConfigurationOfTheOptions) {
  TrainOptions options = gpt3();
  options.recompute = predict::Recompute::full, options.interleave = 2, options.sequence_parallel = true;
  const TrainSetup setup = make_train_setup(options);
  EXPECT_EQ(setup.config.ranks(), 512u);
  EXPECT_EQ(setup.config.micro_batches(), 192u);
  EXPECT_EQ(setup.config.precision, predict::Precision::bf16);
  EXPECT_EQ(setup.device.name, "a100-80g");
  EXPECT_TRUE(setup.notes.empty()) << "51200 words over 8 ranks are aligned";
  // Equation 3 of Narayanan et al. 2021, nothing computed again.
  const predict::GptShape shape{.layers = 96, .hidden = 12288, .heads = 96, .sequence = 2048, .vocabulary = 51200};
  EXPECT_NEAR(model_flop(setup.config) / narayanan_flop(shape, 1536, false), 1, 1e-12);
}

TEST(PredictTrain, TakesFreeModelsAndSaysWhatSlowsThem) {
  TrainOptions options;
  options.layers = 24, options.hidden = 2048, options.accumulate = 4, options.gpu = "v100", options.pad_vocab = 1;
  TrainSetup setup = make_train_setup(options);
  EXPECT_EQ(setup.config.model.heads, 16u);
  EXPECT_EQ(setup.config.global_batch, 4u);
  EXPECT_EQ(setup.config.precision, predict::Precision::fp16) << "a V100 has no bf16";
  ASSERT_EQ(setup.notes.size(), 2u);
  EXPECT_THAT(setup.notes[0], AllOf(HasSubstr("v100: "), HasSubstr("was measured on a100-80g"), HasSubstr("59 us")));
  EXPECT_THAT(setup.notes[1], HasSubstr("--pad-vocab"));
  options.pad_vocab = 128;
  setup = make_train_setup(options);
  EXPECT_EQ(setup.config.model.vocabulary, 50304u) << "128, as Megatron-LM";
  EXPECT_EQ(setup.notes.size(), 1u);
}

TEST(PredictTrain, FusesAttentionUnlessToldOtherwise) {
  TrainOptions options = gpt3();
  EXPECT_TRUE(make_train_setup(options).config.fused_attention);
  options.unfused_attention = true;
  EXPECT_FALSE(make_train_setup(options).config.fused_attention);
  options.fused_attention = true;
  EXPECT_THAT(error_of(options), HasSubstr("exclude each other"));
}

TEST(PredictTrain, SpreadsExperts) {
  TrainOptions options;
  options.model = predict::train_model("mixtral-8x7b"), options.dp = 4, options.gpu = "h100";
  EXPECT_EQ(make_train_setup(options).config.ep, 4u);
  options.ep = 2;
  EXPECT_EQ(make_train_setup(options).config.ep, 2u);
}

TEST(PredictTrain, NamesTheOptionsThatDoNotGoTogether) {
  const auto with = [](auto change) {
    TrainOptions options = gpt3();
    change(options);
    return error_of(options);
  };
  EXPECT_THAT(with([](TrainOptions& o) { o.gpu = "a10"; }),
              AllOf(HasSubstr("--gpu"), HasSubstr("did you mean 'a100'")));
  EXPECT_THAT(with([](TrainOptions& o) { o.tp = 7; }), HasSubstr("--tp 7"));
  EXPECT_THAT(with([](TrainOptions& o) { o.accumulate = 3; }), HasSubstr("give one of both"));
  EXPECT_THAT(with([](TrainOptions& o) { o.model.reset(); }), HasSubstr("--layers"));
  EXPECT_THAT(with([](TrainOptions& o) { o.devices = "/nowhere.json"; }), HasSubstr("/nowhere.json"));
}

TEST(PredictTrain, NamesTheOptionWhoseValueIsWrong) {
  const auto error = [](const std::string& option, const std::string& value) -> std::string {
    TrainOptions options;
    CommandSyntax program("banyan", "");
    declare_train_options(program.command("train", ""), options);
    try {
      parse_command_line(program, {"train", option, value});
    } catch (const Error& refusal) {
      return refusal.what();
    }
    return "";
  };
  EXPECT_THAT(error("--model", "gpt3-175"), AllOf(HasSubstr("--model"), HasSubstr("did you mean")));
  EXPECT_THAT(error("--tp", "seven"), HasSubstr("--tp: 'seven' is not a whole number from 1 to"));
  EXPECT_THAT(error("--zero", "5"), HasSubstr("--zero"));
  EXPECT_THAT(error("--recompute", "some"), HasSubstr("--recompute"));
  EXPECT_THAT(error("--bucket", "25 apples"), HasSubstr("--bucket"));
  EXPECT_EQ(error("--experts", "0"), "");
}

TEST(PredictTrain, SaysWhetherItFitsAndWhatWould) {
  TrainOptions options = gpt3();
  options.unfused_attention = true;
  const TrainSetup setup = make_train_setup(options);
  const predict::MemoryReport memory = memory_report(setup.config, setup.device);
  const std::string text = format_train_setup(Terminal({}), setup, memory);
  EXPECT_THAT(text, AllOf(::testing::StartsWith("memory"), HasSubstr("does not fit"), HasSubstr(" GiB more than the "),
                          HasSubstr("it fits with "), HasSubstr("--recompute full"), HasSubstr("174.62 billion")));
  const Json json = train_setup_json(setup, memory);
  EXPECT_FALSE(json["memory"]["fits"].get<bool>());
  EXPECT_EQ(json["memory"]["stages"].size(), 8u);
  EXPECT_THAT(format_estimate(Terminal({}), setup, estimate_step(setup.config, setup.device, setup.device.cluster)),
              AllOf(HasSubstr("bubble"), HasSubstr("TFLOP/s a device")));
}

TEST(PredictTrain, TellsWhatAFasterDeviceWouldNotShorten) {
  const auto share = [](const std::string& gpu, uint32_t micro_batch) {
    TrainOptions options;
    options.layers = 8, options.hidden = 2048, options.gpu = gpu, options.micro_batch = micro_batch;
    options.accumulate = 2;
    const TrainSetup setup = make_train_setup(options);
    return launch_share(generate_training_step(setup.config, setup.device));
  };
  // A single sequence keeps a fast device waiting for its host; eight keep it busy.
  EXPECT_GT(share("h100", 1), 0.3);
  EXPECT_LT(share("h100", 8), 0.2);
  EXPECT_LT(share("v100", 8), share("h100", 8));
}

TEST(PredictCalibrate, WritesCostsOfACurve) {
  const std::string log = ::testing::TempDir() + "/allreduce_8ranks.csv", costs = ::testing::TempDir() + "/costs.json";
  std::string text = "size(B),time(us)\n";
  for (int i = 1; i <= 64; ++i) text += std::to_string(i << 20) + "," + std::to_string(30 + i * 10.0) + "\n";
  write_file(log, text);
  CalibrateTexts texts;
  texts.files = {log}, texts.output = costs, texts.link = "300GB/s";
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_calibrate(Terminal({}), texts), ExitCode::success);
  EXPECT_THAT(::testing::internal::GetCapturedStdout(), AllOf(HasSubstr("30.0 us"), HasSubstr("every second point")));
  const std::vector<predict::CollectiveCost> read = predict::read_collective_costs(costs);
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].ranks, 8u) << "as the file's name says";
  EXPECT_NEAR(read[0].pieces[0].efficiency, 1.75 * (1 << 20) / 10e-6 / 300e9, 1e-3);
}

TEST(PredictCalibrate, RefusesMixedFiles) {
  const std::string curve = ::testing::TempDir() + "/curve.csv", rows = ::testing::TempDir() + "/rows.csv";
  write_file(curve, "size(B),time(us)\n1,1\n2,2\n3,3\n");
  write_file(rows, "global batch,time (ms)\n");
  CalibrateTexts texts;
  texts.files = {curve, rows};
  EXPECT_THROW(run_calibrate(Terminal({}), texts), Error);
  texts.files = {curve}, texts.output = ::testing::TempDir() + "/costs.json";
  try {
    run_calibrate(Terminal({}), texts);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("--ranks"));
  }
}

}  // namespace
}  // namespace banyan::app
