#include "banyan/run/execute/net_plans.h"

#include "banyan/fabric/generate.h"
#include "banyan/plan/choose.h"
#include "banyan/testing/test.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {
namespace {

// Always the same plan; the network offers no choice.
class OnePlan : public PlanSource {
 public:
  explicit OnePlan(Schedule schedule) : schedule_(std::move(schedule)) {}
  Answer plan(const Question&) override { return {.schedule = &schedule_, .planner = "sample", .slice_bytes = 4096}; }
  std::vector<LinkBytes> bytes_on_links(const Call&) override { return {}; }  // nobody asks
  std::optional<Way> way(uint32_t, const PlanLane&) const override { return std::nullopt; }
  std::vector<Way> ways_between(uint32_t, uint32_t) const override { return {}; }
  bool knows_ways() const override { return false; }
  std::string cable_name(uint32_t) const override { return ""; }
  std::shared_ptr<PlanSource> revised(const FabricUpdate&) const override { return nullptr; }  // nobody asks

 private:
  const Schedule schedule_;
};

// By sender, receiver and number: the lane of a stream, as one rank sees it.
using Streams = std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t>;

Streams streams_of(const RankPlan& plan) {
  Streams streams;
  const auto comes = [&](const StreamEnd& end) { streams[{end.peer, plan.rank, end.number}] = end.lane; };
  const auto goes = [&](const StreamEnd& end) { streams[{plan.rank, end.peer, end.number}] = end.lane; };
  for (const Role& role : plan.roles) {
    for (const StreamEnd& end : role.in_children) comes(end);
    for (const StreamEnd& end : role.out_children) goes(end);
    if (role.in_parent) goes(*role.in_parent);
    if (role.out_parent) comes(*role.out_parent);
  }
  return streams;
}

std::shared_ptr<const RankPlan> allreduce(uint32_t rank, uint32_t ranks, uint32_t shared_lanes) {
  const auto source = std::make_shared<OnePlan>(
      testing::sample_forest({.kind = CollectiveKind::all_reduce, .ranks = ranks, .trees_per_root = 2, .seed = 5}));
  NetPlans plans({.rank = rank, .ranks = ranks, .source = source, .shared_lanes = shared_lanes});
  return plans.plan({.kind = OperationKind::all_reduce, .type = element::DataType::float32, .count = 10'000});
}

TEST(NetPlans, DealStreamsOutAmongSharedLanesEquallyAtBothEnds) {
  constexpr uint32_t kRanks = 4;
  Streams seen;
  std::set<uint32_t> lanes;
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    for (const auto& [stream, lane] : streams_of(*allreduce(rank, kRanks, 3))) {
      const auto [place, is_new] = seen.emplace(stream, lane);
      EXPECT_EQ(place->second, lane) << "rank " << rank;
      lanes.insert(lane);
    }
  }
  EXPECT_EQ(lanes, (std::set<uint32_t>{0, NetPlans::kLanes - 2, NetPlans::kLanes - 1}));
}

TEST(NetPlans, HaveOneSharedLaneByDefault) {
  for (const auto& [stream, lane] : streams_of(*allreduce(1, 4, 1))) EXPECT_EQ(lane, NetPlans::kSharedLane);
}

// Slices of 4096 bytes, and as many seconds as there are bytes.
class AsManySeconds : public OnePlan {
 public:
  using OnePlan::OnePlan;
  Answer plan(const Question& question) override {
    asked.push_back(question.total);
    Answer answer = OnePlan::plan(question);
    answer.busy_seconds = static_cast<double>(question.total.count());
    return answer;
  }
  std::vector<Bytes> asked;
};

TEST(NetPlans, OfCallsWithACodeAreForItsBytesAndKeptApart) {
  const auto source = std::make_shared<AsManySeconds>(
      testing::sample_forest({.kind = CollectiveKind::all_reduce, .ranks = 3, .trees_per_root = 1, .seed = 5}));
  NetPlans plans({.rank = 0, .ranks = 3, .source = source});
  const auto plan_of = [&](const char* codec) {
    Call call{.kind = OperationKind::all_reduce, .type = element::DataType::float32, .count = 10'001};
    if (codec != nullptr) call.codec = codec::parse_codec(codec);
    return plans.plan(call);
  };
  const auto plain = plan_of(nullptr), coded = plan_of("int8"), smaller = plan_of("int4");
  const Bytes bytes[] = {Bytes(40'004), Bytes(40 * 260), Bytes(40 * 136)};  // 10001 values fill 40 blocks
  EXPECT_THAT(source->asked, ::testing::ElementsAreArray(bytes));
  EXPECT_EQ(plain->busy_seconds, 40'004);
  EXPECT_EQ(coded->busy_seconds, 40 * 260);
  EXPECT_EQ(smaller->busy_seconds, 40 * 136);
  // 4096 bytes, or the nearest power of two of blocks.
  EXPECT_EQ(plain->slice_bytes, 4096u);
  EXPECT_EQ(coded->slice_bytes, 16 * 260u);
  EXPECT_EQ(smaller->slice_bytes, 32 * 136u);
  EXPECT_EQ(plan_of(nullptr), plain);
  EXPECT_EQ(plan_of("int8"), coded);
  EXPECT_EQ(plan_of("int8:stochastic")->busy_seconds, 40 * 260);

  // Who goes over to other plans prepares them for the same codes.
  std::vector<std::string> types;
  for (const CallShape& shape : plans.shapes()) types.push_back(to_string(shape.type));
  EXPECT_THAT(types,
              ::testing::ElementsAre("float32 as int8:stochastic", "float32 as int8", "float32", "float32 as int4"));
}

// Each lane has a way of its own, across a switch; a second for all that a plan sends.
class PacedWays : public OnePlan {
 public:
  using OnePlan::OnePlan;
  Answer plan(const Question& question) override {
    Answer answer = OnePlan::plan(question);
    answer.busy_seconds = 1;
    return answer;
  }
  std::optional<Way> way(uint32_t own, const PlanLane& lane) const override {
    Way found;
    found.cables = {std::min(own, lane.peer), std::max(own, lane.peer)};
    return found;
  }
  bool knows_ways() const override { return true; }
};

TEST(NetPlans, PaceLanesAtTheirShareButNotWhereTheySendLittle) {
  const Fabric star = fabric::generate_fabric("star:4@1GB/s");
  const Collective gather = Collective::make(star, {.kind = CollectiveKind::all_gather});
  const auto source = std::make_shared<PacedWays>(plan::plans_of_all(star, gather).front().schedule);
  NetPlans plans({.rank = 0, .ranks = 4, .source = source});
  const auto rates_of = [&](size_t count) {
    std::vector<uint64_t> rates;
    const auto plan = plans.plan({.kind = OperationKind::all_gather, .type = element::DataType::uint8, .count = count});
    for (const PlanLane& lane : plan->lanes) rates.push_back(lane.bytes_per_second);
    return rates;
  };
  EXPECT_THAT(rates_of(8), ::testing::Each(0u));
  EXPECT_THAT(rates_of((16 << 10) - 1), ::testing::Each(0u));
  EXPECT_THAT(rates_of(16 << 10), ::testing::Each(uint64_t{16 << 10}));
  EXPECT_THAT(rates_of(1 << 20), ::testing::Each(uint64_t{1 << 20}));
}

}  // namespace
}  // namespace banyan::run
