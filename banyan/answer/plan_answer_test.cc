#include "banyan/answer/plan_answer.h"

#include "banyan/answer/plan_check.h"
#include "banyan/fabric/generate.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

using Phase = plan::PlanObserver::Phase;

PlanAnswer answer_of(const std::string& spec, CollectiveKind kind, plan::PlanObserver* observer = nullptr) {
  const Fabric fabric = fabric::generate_fabric(spec);
  return make_plan(fabric, Collective::make(fabric, {.kind = kind}), {.observer = observer});
}

class Listener : public plan::PlanObserver {
 public:
  void phase_begins(Phase phase) override { phases.push_back(phase); }
  void progress(double) override {}
  void works_on() override { ++flows; }

  std::vector<Phase> phases;
  size_t flows = 0;
};

// Throws when it is told of a flow for the n-th time.
class Impatient : public Listener {
 public:
  explicit Impatient(size_t patience) : patience_(patience) {}
  void works_on() override {
    if (++flows >= patience_) throw std::runtime_error("enough");
  }

 private:
  size_t patience_;
};

TEST(PlanAnswer, TellsOfEveryPhaseAndOfTheFlowsBetweenThem) {
  Listener heard;
  const PlanAnswer answer = answer_of("mi250:2", CollectiveKind::all_gather, &heard);
  EXPECT_THAT(heard.phases,
              ElementsAre(Phase::bound, Phase::switches, Phase::packing, Phase::lowering, Phase::verifying));
  EXPECT_GT(heard.flows, 0);
  EXPECT_TRUE(answer.plan.optimal);
  EXPECT_GE(answer.seconds.total, answer.seconds.bound + answer.seconds.verify);
}

TEST(PlanAnswer, EndsWithWhatAnObserverThrows) {
  Listener heard;
  answer_of("mi250:2", CollectiveKind::all_gather, &heard);
  for (const size_t patience : {size_t{1}, heard.flows / 2, heard.flows}) {
    Impatient impatient(patience);
    EXPECT_THROW(answer_of("mi250:2", CollectiveKind::all_gather, &impatient), std::runtime_error) << patience;
    EXPECT_EQ(impatient.flows, patience);
  }
}

TEST(PlanAnswer, PutsTheQuickestInThePlaceOfTheForest) {
  PlanAnswer answer = answer_of("mi250:2", CollectiveKind::all_reduce);
  Listener heard;
  choose_by_simulation(answer, Bytes(1024), &heard, nullptr);
  EXPECT_THAT(heard.phases, ElementsAre(Phase::others));
  ASSERT_GE(answer.contenders.size(), 1);
  EXPECT_GE(answer.contenders.size() + answer.left_out, 8);
  EXPECT_EQ(answer.contenders.front().planner, answer.planner);
  for (const Contender& other : answer.contenders) EXPECT_GE(other.time, answer.contenders.front().time);
  EXPECT_TRUE(verify(answer.plan.schedule, answer.plan.seconds_per_byte).valid);
}

TEST(PlanAnswer, KnowsNoQuickestPlanForNothing) {
  PlanAnswer answer = answer_of("full:3", CollectiveKind::all_gather);
  EXPECT_THROW(choose_by_simulation(answer, Bytes(0), nullptr, nullptr), Error);
}

TEST(PlanAnswer, WritesTheBoundOfAnAllreduceThatOverlaps) {
  PlanAnswer answer = answer_of("mesh:3x3", CollectiveKind::all_reduce);
  EXPECT_TRUE(answer.plan.optimal);
  const schedule::ScheduleFile file = to_file(std::move(answer));
  EXPECT_EQ(file.bound_seconds_per_byte, file.claimed_seconds_per_byte);
}

TEST(PlanAnswer, AnAllToAllIsPlannedByPaths) {
  const Fabric fabric = fabric::generate_fabric("torus:4x4@1GB/s");
  const Collective collective = Collective::make(fabric, {.kind = CollectiveKind::all_to_all});
  PlanAnswer answer = make_plan(fabric, collective, {});
  EXPECT_EQ(answer.planner, "flow");
  EXPECT_TRUE(answer.plan.optimal);
  EXPECT_EQ(answer.plan.bound.seconds_per_byte, Fraction(8, int64_t{16} * 1'000'000'000));
  choose_by_simulation(answer, Bytes(uint64_t{1} << 30), nullptr, nullptr);
  EXPECT_EQ(answer.planner, "flow");
  EXPECT_EQ(answer.contenders.size() + answer.left_out, 2u);
  const Examination examined = examine(to_file(std::move(answer)), nullptr);
  EXPECT_TRUE(examined.verdict.valid) << examined.verdict.reason;
  EXPECT_EQ(examined.bound.seconds_per_byte, Fraction(8, int64_t{16} * 1'000'000'000));
}

TEST(PlanAnswer, AnAllToAllTakesNoNumberOfTrees) {
  const Fabric fabric = fabric::generate_fabric("torus:4x4");
  const Collective collective = Collective::make(fabric, {.kind = CollectiveKind::all_to_all});
  try {
    make_plan(fabric, collective, {.trees = 2});
    ADD_FAILURE() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_input);
    EXPECT_STREQ(error.what(),
                 "--trees: all-to-all takes paths; a number of trees and a height are for the other kinds");
  }
}

}  // namespace
}  // namespace banyan::answer
