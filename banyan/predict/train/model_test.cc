#include "banyan/predict/train/model.h"

#include "banyan/predict/train/config.h"
#include "banyan/predict/train/test_narayanan.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

double billions(const char* name) { return train_model(name).parameters() * 1e-9; }

TEST(Model, HasAsManyParametersAsPublished) {
  // Narayanan et al. 2021, table 1, which rounds to 0.1 billion.
  for (const auto& [name, published] : {std::pair{"megatron-1.7b", 1.7},
                                        {"megatron-3.6b", 3.6},
                                        {"megatron-7.5b", 7.5},
                                        {"megatron-18.4b", 18.4},
                                        {"megatron-39.1b", 39.1},
                                        {"megatron-76.1b", 76.1},
                                        {"megatron-145.6b", 145.6},
                                        {"megatron-310.1b", 310.1},
                                        {"megatron-529.6b", 529.6},
                                        {"megatron-1t", 1008.0}})
    EXPECT_NEAR(billions(name), published, 0.05001) << name;
  // Counted in the published checkpoints.
  EXPECT_NEAR(billions("llama2-7b"), 6.738, 0.0005);
  EXPECT_NEAR(billions("llama2-13b"), 13.016, 0.0005);
  EXPECT_NEAR(billions("llama2-70b"), 68.977, 0.0005);
  EXPECT_NEAR(billions("llama3-8b"), 8.030, 0.0005);
  EXPECT_NEAR(billions("llama3-70b"), 70.554, 0.0005);
  EXPECT_NEAR(billions("llama3-405b"), 405.85, 0.01);
  EXPECT_NEAR(billions("mixtral-8x7b"), 46.703, 0.0005);
  EXPECT_NEAR(billions("gpt3-175b"), 175, 0.5);
}

TEST(Model, OfAGptIsTheClosedFormula) {
  for (const GptShape& shape :
       {GptShape{24, 2304, 24, 2048, 51200}, GptShape{96, 12288, 96, 2048, 51200}, GptShape{3, 64, 4, 128, 1000}}) {
    // Equation 2 leaves out the last norm: 2 h.
    EXPECT_NEAR(gpt_model(shape).parameters() - 2 * shape.hidden, narayanan_parameters(shape),
                1e-12 * narayanan_parameters(shape));
  }
}

TEST(Model, NamesAreFoundWithoutRegardToCaseAndMended) {
  EXPECT_EQ(train_model("GPT3-175B").hidden, 12288u);
  try {
    train_model("gpt3-175");
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("did you mean 'gpt3-175b'"), HasSubstr("--layers")));
  }
}

TEST(Model, EveryOneSaysWhereItIsPublished) {
  for (const TrainModel& model : train_models()) {
    EXPECT_FALSE(model.source.empty()) << model.name;
    EXPECT_NO_THROW(check_model(model)) << model.name;
  }
}

std::string error_of(const TrainConfig& config) {
  return testing::error_of([&] { check_config(config); }, ErrorCode::invalid_input);
}

TEST(Config, NamesTheOptionThatDoesNotFit) {
  TrainConfig good;
  good.model = gpt_model({.layers = 8, .hidden = 64, .heads = 4, .sequence = 32, .vocabulary = 100});
  good.tp = 2, good.pp = 2, good.dp = 2, good.global_batch = 8;
  EXPECT_EQ(error_of(good), "no error");
  const auto with = [&](auto change) {
    TrainConfig config = good;
    change(config);
    return error_of(config);
  };
  EXPECT_THAT(with([](TrainConfig& c) { c.tp = 3; }), HasSubstr("--tp 3"));
  EXPECT_THAT(with([](TrainConfig& c) { c.pp = 9; }), HasSubstr("too few for --pp 9"));
  EXPECT_THAT(with([](TrainConfig& c) { c.dp = 0; }), HasSubstr("--dp"));
  EXPECT_THAT(with([](TrainConfig& c) { c.global_batch = 9; }), HasSubstr("choose 10"));
  EXPECT_THAT(with([](TrainConfig& c) { c.micro_batch = 16; }), HasSubstr("--micro-batch"));
  EXPECT_THAT(with([](TrainConfig& c) { c.interleave = 2, c.global_batch = 6; }),
              HasSubstr("--interleave needs micro-batches"));
  EXPECT_THAT(with([](TrainConfig& c) { c.zero = 2; }), HasSubstr("--zero 2"));
  EXPECT_THAT(with([](TrainConfig& c) { c.zero = 4; }), HasSubstr("0 to 3"));
  EXPECT_THAT(with([](TrainConfig& c) { c.ep = 2; }), HasSubstr("experts"));
  EXPECT_THAT(with([](TrainConfig& c) { c.tp = 1, c.sequence_parallel = true; }), HasSubstr("--sequence-parallel"));
  EXPECT_THAT(with([](TrainConfig& c) { c.model.experts = 4; }), HasSubstr("--top-k"));
  EXPECT_THAT(with([](TrainConfig& c) { c.model.heads = 5; }), HasSubstr("--heads"));
  EXPECT_THAT(with([](TrainConfig& c) { c.dp = 4'000'000, c.global_batch = 8'000'000; }), HasSubstr("1000000 ranks"));
}

TEST(Config, UnevenLayersAreMissingAtTheEnds) {
  TrainConfig config;
  config.model = train_model("llama3-405b");
  config.pp = 16;
  uint32_t sum = 0;
  for (uint32_t stage = 0; stage < 16; ++stage) sum += config.layers_of_stage(stage);
  EXPECT_EQ(sum, 126u);
  EXPECT_EQ(config.layers_of_stage(0), 7u);
  EXPECT_EQ(config.layers_of_stage(15), 7u);
  EXPECT_EQ(config.layers_of_stage(7), 8u);
}

}  // namespace
}  // namespace banyan::predict
