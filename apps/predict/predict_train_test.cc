#include "apps/predict/predict_train.h"

#include "apps/parse.h"
#include "apps/predict/predict_calibrate.h"
#include "banyan/base/file.h"
#include "banyan/predict/cost/collective_cost.h"
#include "banyan/predict/train/model.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

TEST(PredictTrain, NamesTheOptionWhoseValueIsWrong) {
  const auto error = [](const std::string& option, const std::string& value) -> std::string {
    predict::TrainOptions options;
    CommandSyntax program("banyan", "");
    declare_train_options(program.command("train", ""), options);
    return testing::error_of([&] { parse_command_line(program, {"train", option, value}); });
  };
  EXPECT_THAT(error("--model", "gpt3-175"), AllOf(HasSubstr("--model"), HasSubstr("did you mean")));
  EXPECT_THAT(error("--tp", "seven"), HasSubstr("--tp: 'seven' is not a whole number from 1 to"));
  EXPECT_THAT(error("--zero", "5"), HasSubstr("--zero"));
  EXPECT_THAT(error("--recompute", "some"), HasSubstr("--recompute"));
  EXPECT_THAT(error("--bucket", "25 apples"), HasSubstr("--bucket"));
  EXPECT_EQ(error("--experts", "0"), "no error");
}

TEST(PredictTrain, SaysWhetherItFitsAndWhatWould) {
  predict::TrainOptions options;
  options.model = predict::train_model("gpt3-175b");
  options.config.tp = options.config.pp = options.config.dp = 8;
  options.global_batch = 1536, options.unfused_attention = true;
  const answer::TrainSetup setup = answer::make_train_setup(options);
  const predict::MemoryReport memory = memory_report(setup.config, setup.device);
  const std::string text = format_train_setup(Terminal({}), setup, memory);
  EXPECT_THAT(text, AllOf(::testing::StartsWith("memory"), HasSubstr("does not fit"), HasSubstr(" GiB more than the "),
                          HasSubstr("it fits with "), HasSubstr("--recompute full"), HasSubstr("174.62 billion")));
}

TEST(PredictCalibrate, WritesCostsOfACurve) {
  const std::string log = ::testing::TempDir() + "/allreduce_8ranks.csv", costs = ::testing::TempDir() + "/costs.json";
  std::string text = "size(B),time(us)\n";
  for (int i = 1; i <= 64; ++i) text += std::to_string(i << 20) + "," + std::to_string(30 + i * 10.0) + "\n";
  write_file(log, text);
  CalibrateOptions options;
  options.files = {log}, options.output = costs, options.link = Bandwidth::parse("300GB/s");
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_calibrate(Terminal({}), options), ExitCode::success);
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
  CalibrateOptions options;
  options.files = {curve, rows};
  EXPECT_THROW(run_calibrate(Terminal({}), options), Error);
  options.files = {curve}, options.output = ::testing::TempDir() + "/costs.json";
  EXPECT_THAT(testing::error_of([&] { run_calibrate(Terminal({}), options); }), HasSubstr("--ranks"));
}

}  // namespace
}  // namespace banyan::app
