#include "banyan/answer/train_step.h"

#include <nlohmann/json.hpp>

#include "banyan/predict/train/generate.h"
#include "banyan/predict/train/model.h"
#include "banyan/predict/train/test_narayanan.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

std::string error_of(const predict::TrainOptions& options) {
  return testing::error_of([&] { make_train_setup(options); });
}

predict::TrainOptions gpt3() {
  predict::TrainOptions options;
  options.model = predict::train_model("gpt3-175b");
  options.config.tp = options.config.pp = options.config.dp = 8;
  options.global_batch = 1536;
  return options;
}

TEST(TrainStep, TakesTheDeviceOfTheFabricsNameWhenNoneIsGiven) {
  predict::TrainOptions options = gpt3();
  const auto device_on = [&](std::string_view fabric) { return make_train_setup(options, fabric).device.name; };
  EXPECT_EQ(device_on("dgx-h100:64"), "h100");
  EXPECT_EQ(device_on("dgx-a100:64@400Gb/s"), "a100-80g");
  EXPECT_EQ(device_on("mi250:32"), "mi250");
  for (const std::string_view fabric : {"dgx-b200:64", "torus:8x8x8", "cluster.json"}) {
    const TrainSetup setup = make_train_setup(options, fabric);
    EXPECT_EQ(setup.device.name, "a100-80g") << fabric;
    EXPECT_THAT(setup.notes, ::testing::Contains(HasSubstr("the device is a100-80g"))) << fabric;
  }
  options.gpu = "v100";
  options.config.recompute = predict::Recompute::full;
  EXPECT_EQ(device_on("dgx-h100:64"), "v100");
}

TEST(TrainStep, MakesAConfigurationOfTheOptions) {
  predict::TrainOptions options = gpt3();
  options.config.recompute = predict::Recompute::full, options.config.interleave = 2,
  options.config.sequence_parallel = true;
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

TEST(TrainStep, TakesFreeModelsAndSaysWhatSlowsThem) {
  predict::TrainOptions options;
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

TEST(TrainStep, FusesAttentionUnlessToldOtherwise) {
  predict::TrainOptions options = gpt3();
  EXPECT_TRUE(make_train_setup(options).config.fused_attention);
  options.unfused_attention = true;
  EXPECT_FALSE(make_train_setup(options).config.fused_attention);
  options.fused_attention = true;
  EXPECT_THAT(error_of(options), HasSubstr("exclude each other"));
}

TEST(TrainStep, SpreadsExperts) {
  predict::TrainOptions options;
  options.model = predict::train_model("mixtral-8x7b"), options.config.dp = 4, options.gpu = "h100";
  EXPECT_EQ(make_train_setup(options).config.ep, 4u);
  options.ep = 2;
  EXPECT_EQ(make_train_setup(options).config.ep, 2u);
}

TEST(TrainStep, NamesTheOptionsThatDoNotGoTogether) {
  const auto with = [](auto change) {
    predict::TrainOptions options = gpt3();
    change(options);
    return error_of(options);
  };
  EXPECT_THAT(with([](predict::TrainOptions& o) { o.gpu = "a10"; }),
              AllOf(HasSubstr("--gpu"), HasSubstr("did you mean 'a100'")));
  EXPECT_THAT(with([](predict::TrainOptions& o) { o.config.tp = 7; }), HasSubstr("--tp 7"));
  EXPECT_THAT(with([](predict::TrainOptions& o) { o.accumulate = 3; }), HasSubstr("give one of both"));
  EXPECT_THAT(with([](predict::TrainOptions& o) { o.model.reset(); }), HasSubstr("--layers"));
  EXPECT_THAT(with([](predict::TrainOptions& o) { o.devices = "/nowhere.json"; }), HasSubstr("/nowhere.json"));
}

TEST(TrainStep, TellsWhatAFasterDeviceWouldNotShorten) {
  const auto share = [](const std::string& gpu, uint32_t micro_batch) {
    predict::TrainOptions options;
    options.layers = 8, options.hidden = 2048, options.gpu = gpu, options.config.micro_batch = micro_batch;
    options.accumulate = 2;
    const TrainSetup setup = make_train_setup(options);
    return launch_share(generate_training_step(setup.config, setup.device));
  };
  // A single sequence keeps a fast device waiting for its host; eight keep it busy.
  EXPECT_GT(share("h100", 1), 0.3);
  EXPECT_LT(share("h100", 8), 0.2);
  EXPECT_LT(share("v100", 8), share("h100", 8));
}

TEST(TrainStep, SaysByHowMuchItDoesNotFitAndWhatWould) {
  predict::TrainOptions options = gpt3();
  options.unfused_attention = true;
  const TrainSetup setup = make_train_setup(options);
  const predict::MemoryReport memory = memory_report(setup.config, setup.device);
  EXPECT_THAT(misfit(setup, memory), AllOf(HasSubstr("a rank of stage 0 needs "), HasSubstr(" GiB more than the "),
                                           HasSubstr("it fits with "), HasSubstr("--recompute full")));
  const auto json = nlohmann::json::parse(training_json(setup, memory));
  EXPECT_FALSE(json["memory"]["fits"].get<bool>());
  EXPECT_EQ(json["memory"]["stages"].size(), 8u);
  EXPECT_EQ(json["memory"]["fits_with"].size(), memory.mends.size());
}

TEST(TrainStep, RatesAreModelFlopsOverTheTime) {
  const TrainSetup setup = make_train_setup(gpt3());
  const StepRates rates = step_rates(setup, 20);
  EXPECT_DOUBLE_EQ(rates.flops_a_device * 20 * 512, model_flop(setup.config));
  EXPECT_DOUBLE_EQ(rates.of_peak * 312e12, rates.flops_a_device) << "the peak of an A100 in bf16";
  EXPECT_DOUBLE_EQ(rates.tokens_a_second, 1536 * 2048 / 20.0);
}

TEST(TrainOptions, AreSetByTheWordsOfTheCommandLine) {
  predict::TrainOptions options;
  for (const auto& [name, text] : {std::pair{"model", "gpt3-13b"}, std::pair{"global-batch", "64"},
                                   std::pair{"bucket", "1MiB"}, std::pair{"sequence-parallel", "true"}})
    set_train_option(options, name, text);
  EXPECT_EQ(options.model->name, "gpt3-13b");
  EXPECT_EQ(options.global_batch, 64u);
  EXPECT_EQ(options.config.bucket, Bytes(1 << 20));
  EXPECT_TRUE(options.config.sequence_parallel);
  EXPECT_FALSE(options.unfused_attention);
  set_train_option(options, "fused-attention", "false");
  EXPECT_TRUE(options.unfused_attention) << "attention is fused unless it is said not to be";
}

TEST(TrainOptions, NameTheOptionWhoseValueIsWrong) {
  const auto error = [](const char* name, const char* text) {
    return testing::error_of([&] {
      predict::TrainOptions options;
      set_train_option(options, name, text);
    });
  };
  EXPECT_THAT(error("tp", "0"), HasSubstr("--tp: '0' is not a whole number from 1 to"));
  EXPECT_THAT(error("zero", "4"), HasSubstr("--zero: '4' is not a whole number from 0 to 3"));
  EXPECT_THAT(error("sequence-parallel", "1"), HasSubstr("--sequence-parallel: '1' is not true or false"));
  EXPECT_THAT(error("modle", "gpt3-13b"), HasSubstr("(did you mean 'model'?)"));
}

}  // namespace
}  // namespace banyan::answer
