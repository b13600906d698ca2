#include "banyan/answer/step_answer.h"

#include "banyan/fabric/read.h"
#include "banyan/predict/report/prediction_json.h"
#include "banyan/predict/report/summary.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

// Remembers what was begun; ends the simulation that begins as the n-th.
class Listener : public JobObserver {
 public:
  explicit Listener(size_t ends_at = 0) : ends_at_(ends_at) {}
  void begins(const char* what) override { begun.emplace_back(what); }
  void progress(double, Picoseconds) override {}
  bool stop() override { return ends_at_ > 0 && begun.size() >= ends_at_; }

  std::vector<std::string> begun;

 private:
  const size_t ends_at_;
};

StepQuestion small_step(const std::string& fabric = "dgx-a100:1") {
  predict::TrainOptions options;
  options.layers = 4, options.hidden = 1024, options.config.tp = 2, options.config.dp = 2, options.global_batch = 8;
  return {.setup = make_train_setup(options), .fabric = fabric::load_fabric({.fabric = fabric}), .fabric_name = fabric};
}

// Long enough for the simulator to look up.
StepQuestion long_step() {
  StepQuestion question = small_step();
  predict::TrainOptions options;
  options.layers = 8, options.hidden = 1024, options.config.tp = 2, options.config.dp = 4, options.global_batch = 512;
  question.setup = make_train_setup(options);
  question.options.unfolded = true;
  question.options.events = {"1us gpu0-nvsw0=1GB/s"};
  return question;
}

TEST(StepAnswer, TellsTheTimeWhereItWentAndWhatWasTrained) {
  Listener listener;
  const StepAnswer step = predict_step(small_step(), listener);
  const predict::ReportInput report = report_of(step);
  EXPECT_TRUE(report.prediction.complete);
  EXPECT_THAT(report.prediction.title, AllOf(HasSubstr("tp 2"), HasSubstr(" on dgx-a100:1")));
  ASSERT_EQ(report.prediction.ranks.size(), 4u);
  const predict::TimeShares shares = time_shares(report.prediction);
  EXPECT_NEAR(shares.compute + shares.exposed + shares.waiting + shares.host + shares.bubble, 1, 1e-9);
  EXPECT_EQ(report.training, training_json(step.setup, step.memory));
  EXPECT_FALSE(report.facts.empty()) << "for the page";
  EXPECT_EQ(report.simulated->nodes, step.answer.simulation.nodes);
  EXPECT_THAT(listener.begun, ElementsAre("simulating"));
}

TEST(StepAnswer, RefusesAStepThatDoesNotFitUnlessToldOtherwise) {
  predict::TrainOptions options;
  options.model = predict::train_model("gpt3-175b"), options.config.tp = 8;
  StepQuestion question = small_step();
  question.setup = make_train_setup(options);
  Listener listener;
  const StepAnswer refused = predict_step(question, listener);
  EXPECT_TRUE(refused.is_refused());
  EXPECT_THAT(listener.begun, ElementsAre()) << "nothing was simulated";
  const predict::ReportInput report = report_of(refused);
  EXPECT_FALSE(report.prediction.complete);
  EXPECT_FALSE(report.simulated.has_value());
  ASSERT_FALSE(report.notes.empty());
  EXPECT_THAT(report.notes.front(), HasSubstr("does not fit into memory"));
  question.ignore_memory = true;
  const StepAnswer anyway = predict_step(question, listener);
  EXPECT_FALSE(anyway.is_refused());
  EXPECT_GT(anyway.answer.simulation.prediction.time.count(), 0);
  EXPECT_THAT(report_of(anyway).notes.front(), HasSubstr("does not fit into memory"));
}

TEST(StepAnswer, StandsOnTheRanksThatAreNamed) {
  StepQuestion question = small_step("dgx-a100:2");
  question.place.ranks = {"gpu3", "gpu9", "gpu1", "gpu12"};
  Listener listener;
  const StepAnswer step = predict_step(question, listener);
  std::vector<std::string> names;
  for (const predict::PredictedRank& rank : step.answer.simulation.prediction.ranks) names.push_back(rank.name);
  EXPECT_THAT(names, ElementsAre("gpu3", "gpu9", "gpu1", "gpu12"));
  question.place.ranks.pop_back();
  EXPECT_THAT(testing::error_of([&] { predict_step(question, listener); }), HasSubstr("3 names for a job of 4 ranks"));
}

TEST(StepAnswer, SimulatesItAloneWhereLinksChangeAndAsksWhatWouldHelp) {
  StepQuestion question = small_step();
  question.options.events = {"1us gpu0-nvsw0=1GB/s"};
  question.options.what_if = true;
  Listener listener;
  const StepAnswer step = predict_step(question, listener);
  EXPECT_THAT(listener.begun, ElementsAre("simulating", "simulating each job alone", "asking what would help"));
  const predict::PredictedJob& job = step.answer.simulation.prediction.jobs.front();
  EXPECT_GT(job.end - job.begin, *job.alone) << "the event slows it down";
  EXPECT_EQ(step.answer.what_if.size(), 3u) << "one box has no links to others";
}

TEST(StepAnswer, IsNoneWhenSomebodyEndsIt) {
  for (const size_t ends_at : {1, 2}) {
    StepQuestion question = long_step();
    Listener listener(ends_at);
    const StepAnswer step = predict_step(question, listener);
    EXPECT_TRUE(step.answer.is_interrupted) << ends_at;
    EXPECT_EQ(step.answer.simulation.prediction.complete, ends_at == 2);
  }
}

TEST(StepAnswer, NamesTheOptionThatIsWrong) {
  const auto error = [](const char* name, const char* text) {
    return testing::error_of([&] {
      StepQuestion question = small_step();
      set_option(question.options, job_options(), name, text);
      Listener listener;
      predict_step(question, listener);
    });
  };
  EXPECT_THAT(error("placement", "loose"), HasSubstr("--placement: "));
  EXPECT_THAT(error("seed", "-1"), HasSubstr("--seed: "));
  EXPECT_THAT(error("event", "soon"), HasSubstr("--event 'soon': "));
  EXPECT_THAT(error("on-failure", "weep"), HasSubstr("--on-failure: "));
  EXPECT_THAT(error("eager", "much"), HasSubstr("--eager: "));
  EXPECT_THAT(error("costs", "/nowhere.json"), HasSubstr("--costs /nowhere.json: "));
  EXPECT_THAT(error("collectives", "none"), HasSubstr("--collectives: "));
  EXPECT_THAT(error("window", "wide"), HasSubstr("--window: "));
  EXPECT_THAT(error("algorithm", "magic"), HasSubstr("unknown algorithm 'magic'"));
}

TEST(JobOptions, AreTextsOrTheValuesThemselves) {
  JobOptions texts, values;
  const auto set = [](JobOptions& options, const char* name, const OptionValue& value) {
    set_option(options, job_options(), name, value);
  };
  set(texts, "window", "1us"), set(values, "window", uint64_t{1'000'000});
  set(texts, "eager", "1KiB"), set(values, "eager", uint64_t{1024});
  set(texts, "seed", "7"), set(values, "seed", uint64_t{7});
  set(texts, "what-if", "true"), set(values, "what-if", true);
  set(texts, "event", "a"), set(texts, "event", "b"), set(values, "event", std::vector<std::string>{"a", "b"});
  for (const JobOptions& options : {texts, values}) {
    EXPECT_EQ(options.simulation.window, std::chrono::microseconds(1));
    EXPECT_EQ(options.simulation.eager, Bytes(1024));
    EXPECT_EQ(options.seed, 7u);
    EXPECT_TRUE(options.what_if);
    EXPECT_THAT(options.events, ElementsAre("a", "b"));
  }
  EXPECT_THAT(testing::error_of([&] { set(values, "window", uint64_t{1} << 62); }), HasSubstr("--window: "));
  EXPECT_THAT(testing::error_of([&] { set(values, "eager", std::vector<std::string>{}); }), HasSubstr("--eager: "));
}

}  // namespace
}  // namespace banyan::answer
