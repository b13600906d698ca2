#include "banyan/answer/timed_plan.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/planner.h"
#include "banyan/schedule/cost.h"
#include "banyan/testing/test.h"

namespace banyan::answer {
namespace {

std::vector<plan::Candidate> plans_for_allreduce(const std::string& fabric) {
  const Fabric made = fabric::generate_fabric(fabric);
  return plan::plan_candidates(made, Collective::make(made, {.kind = CollectiveKind::all_reduce}));
}

class EndsAtOnce : public predict::SimulationObserver {
 public:
  void progress(double, Picoseconds) override {}
  bool stop() override { return true; }
};

// A transfer over one link of 1 GB/s without latency: the cost of a message and the bytes of a slice.
TEST(TimedPlan, TakesTheSliceThatIsAskedFor) {
  const Fabric fabric = fabric::generate_fabric("full:2@1GB/s");
  const Schedule schedule = plan::make_plan(plan::planner_named("forest"), fabric,
                                            Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  const TimedPlan timed =
      time_plan(schedule, Bytes(1'000'000), {.slice = Bytes(250'000), .alpha = std::chrono::microseconds(10)});
  EXPECT_EQ(timed.slice, Bytes(250'000));
  EXPECT_EQ(timed.simulation.time, Picoseconds(std::chrono::microseconds(4 * 10 + 1000)));
}

TEST(TimedPlan, WithoutASliceTriesAFewAndKeepsTheQuickest) {
  const auto candidates = plans_for_allreduce("mi250:1");
  const Schedule& schedule = candidates.front().schedule;
  const Bytes total(64 << 20);
  const TimedPlan best = time_plan(schedule, total, {});
  for (const uint64_t factor : {1, 4, 16}) {
    const Bytes other(std::max<uint64_t>(1, best.slice.count() * 4 / factor));
    EXPECT_LE(best.simulation.time, time_plan(schedule, total, {.slice = other}).simulation.time) << other.count();
  }
}

// The choice on boxes of vendors, whatever the size: 1 KiB, 8 KiB, ... 4 GiB.
TEST(RankBySimulation, IsNeverWorseThanAnyPlanner) {
  for (const std::string name : {"dgx-a100:1", "dgx-a100:2", "dgx-h100:2", "dgx1-v100:2", "mi250:1"}) {
    const Fabric fabric = fabric::generate_fabric(name);
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather, CollectiveKind::all_reduce, CollectiveKind::broadcast}) {
      const auto candidates = plan::plans_of_all(fabric, Collective::make(fabric, {.kind = kind}));
      for (const uint32_t shift : {10u, 13u, 16u, 19u, 22u, 25u, 28u, 32u}) {
        const uint64_t total = uint64_t{1} << shift;
        const Picoseconds chosen = rank_by_simulation(candidates, Bytes(total), {}).front().time;
        for (const plan::Candidate& each : candidates) {
          EXPECT_LE(chosen, time_plan(each.schedule, Bytes(total), {}).simulation.time)
              << name << " " << to_string(kind) << " " << each.planner << " " << total;
        }
      }
    }
  }
}

TEST(RankBySimulation, PutsTheQuickestFirst) {
  const auto candidates = plans_for_allreduce("mi250:1");
  ASSERT_GE(candidates.size(), 2u);
  for (const Bytes total : {Bytes(64), Bytes(1 << 30)}) {
    const std::vector<TimedCandidate> ranking = rank_by_simulation(candidates, total, {});
    ASSERT_GE(ranking.size(), 1u);
    for (size_t i = 0; i < ranking.size(); ++i) {
      EXPECT_EQ(ranking[i].time, time_plan(candidates[ranking[i].candidate].schedule, total, {}).simulation.time);
      if (i > 0) {
        EXPECT_LE(ranking[i - 1].time, ranking[i].time);
      }
    }
  }
  EXPECT_NE(rank_by_simulation(candidates, Bytes(64), {}).front().candidate,
            rank_by_simulation(candidates, Bytes(1 << 30), {}).front().candidate);
}

TEST(RankBySimulation, SaysThatItWasInterrupted) {
  EndsAtOnce observer;
  try {
    rank_by_simulation(plans_for_allreduce("mi250:1"), Bytes(1 << 30), {.observer = &observer});
    ADD_FAILURE() << "chose";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::aborted);
  }
}

// However many bytes: the simulation of a size that no slice of a message would cut into few pieces ends, and is near
// what the busiest link needs.
TEST(TimedPlan, CutsAnyNumberOfBytesIntoFewSlices) {
  for (const plan::Candidate& candidate : plans_for_allreduce("mi250:1")) {
    const Bytes total(uint64_t{1} << 56);
    const TimedPlan timed = time_plan(candidate.schedule, total, {});
    EXPECT_LE(timed.simulation.messages_simulated, uint64_t{1} << 20) << candidate.planner;
    const double least = seconds_per_byte(candidate.schedule).to_double() * static_cast<double>(total.count());
    const double seconds = std::chrono::duration<double>(timed.simulation.time).count();
    EXPECT_GE(seconds, 0.999 * least) << candidate.planner;
  }
}

TEST(TimedPlan, SaysThatSimulatedTimeEnds) {
  const Fabric fabric = fabric::generate_fabric("star:2@1B/s");
  const Schedule schedule = plan::make_plan(plan::planner_named("ring"), fabric, Collective::make(fabric, {}));
  try {
    time_plan(schedule, Bytes(uint64_t{1} << 40), {});
    ADD_FAILURE() << "ended";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("takes longer than the 53 days"), std::string::npos) << error.message();
  }
}

TEST(ExpectFewPieces, NamesASliceThatIsLargeEnough) {
  try {
    expect_few_pieces(Bytes(uint64_t{1} << 40), Bytes(1));
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(error.message().find("give 262145 B or more"), std::string::npos) << error.message();
  }
}

}  // namespace
}  // namespace banyan::answer
