#include "banyan/service/session/plan_advice.h"

#include "banyan/compose/planner.h"
#include "banyan/fabric/links.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using ::testing::Pair;

constexpr uint64_t kSpine = 25'000'000;  // bytes per second

// Two hosts, each at a leaf of its own, and two spines between them.
class PlanAdvice : public ::testing::Test {
 protected:
  explicit PlanAdvice(const std::string& planner = {})
      : planner_(planner),
        files_(compose::read_files({.fabric = "leaf-spine:leaves=2,hosts=1,spines=2,uplink=200Mb/s@400Mb/s"})),
        links_({.bandwidths = fabric::link_bandwidths(fabric()), .cables = fabric::link_cables(fabric())}),
        source_(compose::planner_from(
            *files_, {.members = {0, 1}, .job_size = 2, .host_of_rank = {0, 1}, .node_of_host = {"gpu0", "gpu1"}})) {}

  uint32_t cable(const std::string& name) const { return fabric::cables_called(fabric(), name).at(0); }
  const Fabric& fabric() const { return fabric_of(*files_).value(); }
  // Both links of a cable.
  std::vector<LinkPart> view(const std::vector<std::pair<std::string, uint32_t>>& parts) const {
    std::vector<LinkPart> view;
    for (const auto& [name, sixteenths] : parts) {
      for (uint32_t link = 0; link < links_.cables.size(); ++link) {
        if (links_.cables[link] == cable(name)) view.push_back({.link = link, .sixteenths = sixteenths});
      }
    }
    return view;
  }
  // An allreduce of 1 MB, by the plan for what has been adopted.
  PlannedCall call(run::FabricUpdate adopted = {}) const {
    adopted.planner = planner_;
    const std::shared_ptr<run::PlanSource> present = source_->revised(adopted);
    PlannedCall call{.source = source_, .question = {.total = Bytes(1'000'000)}, .links = {}, .adopted = adopted};
    for (const auto& use : present->bytes_on_links(
             {.kind = run::OperationKind::all_reduce, .type = element::DataType::uint8, .count = 1'000'000})) {
      call.links.push_back({.link = use.link, .bytes = use.bytes});
    }
    return call;
  }
  std::optional<run::PlanWish> weighed(const PlannedCall& call, const std::vector<LinkPart>& view) {
    return weigh(call, links_, cables_.bandwidths(links_, view, call.adopted));
  }
  // The part of the bytes on a spine that a plan for this has on its first one.
  double part_on_spine0(const run::FabricUpdate& update) const {
    double on_spine0 = 0, on_both = 0;
    for (const LinkUse& use : call(update).links) {
      const uint32_t crossed = links_.cables[use.link];
      if (crossed == cable("leaf0-spine0")) on_spine0 += use.bytes;
      if (crossed == cable("leaf0-spine0") || crossed == cable("leaf0-spine1")) on_both += use.bytes;
    }
    return on_spine0 / on_both;
  }

  const std::string planner_;  // empty: the quickest
  const std::shared_ptr<const compose::PlannerFiles> files_;
  const LinkTable links_;
  const std::shared_ptr<run::PlanSource> source_;
  AdvisedCables cables_;
};

class RingAdvice : public PlanAdvice {
 protected:
  RingAdvice() : PlanAdvice("ring") {}
};

TEST_F(PlanAdvice, AForestLeavesTheSpineThatOthersUse) {
  EXPECT_DOUBLE_EQ(part_on_spine0({}), 0.5);
  const auto wish = weighed(call(), view({{"leaf0-spine0", 4}, {"leaf1-spine0", 4}}));
  ASSERT_TRUE(wish);
  EXPECT_THAT(wish->bytes_per_second,
              ElementsAre(Pair(cable("leaf0-spine0"), kSpine / 4), Pair(cable("leaf1-spine0"), kSpine / 4)));
  EXPECT_NEAR(part_on_spine0(run::FabricUpdate().after(*wish)), 0.2, 1e-9);
}

TEST_F(PlanAdvice, APlanThatWouldGainLessThanATenthStays) {
  EXPECT_FALSE(weighed(call(), view({{"leaf0-spine0", 8}, {"leaf0-spine1", 8}}))) << "both are as full";
  EXPECT_FALSE(weighed(call(), view({{"gpu0-leaf0", 2}}))) << "there is no other way";
  EXPECT_FALSE(weighed(call(), view({{"leaf0-spine0", 15}})));
}

TEST_F(RingAdvice, ARingWithoutChoiceOfWaysGoesToTheOtherSpine) {
  EXPECT_DOUBLE_EQ(part_on_spine0({}), 1);
  const auto wish = weighed(call(), view({{"leaf0-spine0", 8}}));
  ASSERT_TRUE(wish);
  EXPECT_DOUBLE_EQ(part_on_spine0(run::FabricUpdate().after(*wish)), 0);
}

TEST_F(RingAdvice, AndComesBackOnlyWhenThatIsWorthIt) {
  run::FabricUpdate adopted = run::FabricUpdate().after(*weighed(call(), view({{"leaf0-spine0", 8}})));
  ++adopted.generation;
  EXPECT_FALSE(weighed(call(adopted), view({{"leaf0-spine0", 16}}))) << "the others have gone, spine 1 is as good";
  const auto wish = weighed(call(adopted), view({{"leaf0-spine0", 16}, {"leaf0-spine1", 8}}));
  ASSERT_TRUE(wish);
  EXPECT_EQ(wish->bytes_per_second.at(cable("leaf0-spine0")), kSpine) << "the whole again";
  EXPECT_DOUBLE_EQ(part_on_spine0(run::FabricUpdate().after(*wish)), 1);
}

TEST_F(RingAdvice, LostCablesStayLostAndAvoidedOnesAvoided) {
  const run::FabricUpdate lost{.generation = 1, .lost_cables = {cable("leaf0-spine1")}};
  EXPECT_FALSE(weighed(call(lost), view({{"leaf0-spine0", 2}})));
  const run::FabricUpdate avoided{.generation = 1, .avoided_cables = {cable("leaf0-spine1")}};
  EXPECT_FALSE(weighed(call(avoided), view({{"leaf0-spine0", 2}})));
}

TEST_F(PlanAdvice, APartIsOneOfWhatAnOperatorHasSaid) {
  run::FabricUpdate adopted{.bytes_per_second = {{cable("leaf0-spine0"), 1'600'000}}};
  const auto half = cables_.bandwidths(links_, view({{"leaf0-spine0", 8}}), adopted);
  EXPECT_THAT(half, ElementsAre(Pair(cable("leaf0-spine0"), 800'000)));
  adopted.bytes_per_second = half;  // it was adopted
  EXPECT_THAT(cables_.bandwidths(links_, view({{"leaf0-spine0", 16}}), adopted),
              ElementsAre(Pair(cable("leaf0-spine0"), 1'600'000)));
}

TEST_F(PlanAdvice, OfTheDirectionsOfACableTheLesserPartCounts) {
  std::vector<LinkPart> view = this->view({{"leaf0-spine0", 12}});
  view.back().sixteenths = 4;
  EXPECT_THAT(cables_.bandwidths(links_, view, {}), ElementsAre(Pair(cable("leaf0-spine0"), kSpine / 4)));
  EXPECT_THAT(cables_.bandwidths(links_, {{.link = 99'999, .sixteenths = 1}}, {}), IsEmpty());
}

TEST_F(PlanAdvice, CablesWhoseDirectionsDifferAreLeftOut) {
  const LinkTable uneven{.bandwidths = {100, 50}, .cables = {0, 0}};
  EXPECT_THAT(cables_.bandwidths(uneven, {{.link = 0, .sixteenths = 8}}, {}), IsEmpty());
}

}  // namespace
}  // namespace banyan::service
