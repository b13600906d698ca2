// Fabrics that clusters really have: boxes of several sizes and generations, a slow host, some of the ranks.

#include "banyan/fabric/text.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

struct Box {
  int ranks, nvlink_gigabytes, nic_gigabytes;
};

// Boxes of ranks on an NVSwitch, joined by one switch.
Fabric cluster_of(const std::vector<Box>& boxes) {
  std::string text = "ib: switch";
  int rank = 0;
  for (size_t b = 0; b < boxes.size(); ++b) {
    for (int i = 0; i < boxes[b].ranks; ++i, ++rank) {
      const std::string name = "gpu" + std::to_string(rank);
      text += "; " + name + " <-> nvsw" + std::to_string(b) + " " + std::to_string(boxes[b].nvlink_gigabytes) + "GB/s";
      text += "; " + name + " <-> ib " + std::to_string(boxes[b].nic_gigabytes) + "GB/s";
    }
  }
  return fabric::parse_fabric_text(text);
}

void expect_optimal(const Fabric& fabric, const std::vector<NodeId>& ranks = {}) {
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce}) {
    SCOPED_TRACE(to_string(kind));
    const ForestPlan plan = plan_forest(fabric, Collective::make(fabric, {.kind = kind, .ranks = ranks}));
    EXPECT_TRUE(verify(plan.schedule, plan.seconds_per_byte).valid);
    EXPECT_TRUE(plan.optimal);
  }
}

TEST(Uneven, BoxesOfSevenAndEight) {
  expect_optimal(cluster_of({{7, 450, 50}, {8, 450, 50}}));
  expect_optimal(cluster_of({{7, 450, 50}, {8, 450, 50}, {7, 450, 50}, {8, 450, 50}}));
}

TEST(Uneven, BoxesOfTwoGenerations) { expect_optimal(cluster_of({{8, 450, 50}, {8, 450, 50}, {8, 300, 25}})); }

TEST(Uneven, OneSlowHost) { expect_optimal(cluster_of({{8, 450, 50}, {8, 450, 50}, {8, 450, 50}, {8, 450, 10}})); }

TEST(Uneven, SomeOfTheRanks) {
  std::vector<NodeId> ranks;
  for (const uint32_t rank : {0, 1, 2, 3, 4, 5, 6, 9, 12, 14}) ranks.push_back(NodeId{rank});
  const Fabric fabric = cluster_of({{8, 450, 50}, {8, 450, 50}});
  for (NodeId& rank : ranks) rank = fabric.at("gpu" + std::to_string(index(rank)));
  expect_optimal(fabric, ranks);
}

}  // namespace
}  // namespace banyan::plan
