#include "banyan/design/loss_report.h"

#include "banyan/design/up_paths.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::design {
namespace {

// The fabric with the losses that `loss_of(link)` gives.
template <typename LossOf>
Fabric with_losses(const Fabric& fabric, LossOf loss_of) {
  Fabric::Builder builder;
  for (const Node& node : fabric.nodes()) builder.add_node(node);
  for (Link link : fabric.links()) {
    link.loss = loss_of(link);
    builder.add_link(link);
  }
  return std::move(builder).build();
}

// One in `rare` links between switches loses something.
Fabric with_random_losses(const Fabric& fabric, std::mt19937_64& random, uint64_t rare, bool also_ranks = false) {
  return with_losses(fabric, [&](const Link& link) {
    const bool may = also_ranks || (!fabric.is_rank(link.from) && !fabric.is_rank(link.to));
    return may && random() % rare == 0 ? 1e-6 * static_cast<double>(1 + random() % 20) : 0.0;
  });
}

std::vector<std::string> disabled(const LossReport& report) {
  std::vector<std::string> names;
  for (const LossReport::Cable& cable : report.cables) {
    if (cable.disable) names.push_back(cable.name);
  }
  return names;
}

// What each rank has without some cables, counted from the top by itself: a map from node names to ways.
std::map<NodeId, uint64_t> count_ways(const Fabric& fabric, const std::set<std::pair<NodeId, NodeId>>& gone) {
  std::map<NodeId, uint32_t> tier;
  std::vector<NodeId> queue(fabric.ranks().begin(), fabric.ranks().end());
  for (const NodeId rank : queue) tier[rank] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const Link& link : fabric.links()) {
      if (link.from == queue[i] && tier.try_emplace(link.to, tier[queue[i]] + 1).second) queue.push_back(link.to);
    }
  }
  const uint32_t top = tier[queue.back()];
  std::map<NodeId, uint64_t> ways;
  for (size_t i = queue.size(); i-- > 0;) {
    const NodeId node = queue[i];
    if (tier[node] == top) ways[node] = 1;
    for (const Link& link : fabric.links()) {
      if (link.from == node && tier[link.to] == tier[node] + 1 && !gone.contains({link.from, link.to}))
        ways[node] += ways[link.to];
    }
  }
  return ways;
}

// The most loss that can be disabled, by trying every set.
double brute_force(const Fabric& fabric, const LossReport& report, double share) {
  const auto first = count_ways(fabric, {});
  double best = 0;
  for (uint32_t set = 0; set < uint32_t{1} << report.cables.size(); ++set) {
    std::set<std::pair<NodeId, NodeId>> gone;
    double loss = 0;
    for (size_t i = 0; i < report.cables.size(); ++i) {
      if ((set >> i & 1) == 0) continue;
      const fabric::Cable& cable = report.cables[i].ends;
      gone.insert({{cable.a, cable.b}, {cable.b, cable.a}});
      loss += report.cables[i].loss;
    }
    if (loss <= best) continue;
    auto left = count_ways(fabric, gone);
    bool holds = true;
    for (const NodeId rank : fabric.ranks())
      holds &= static_cast<double>(left[rank]) >= share * static_cast<double>(first.at(rank)) - 1e-9;
    if (holds) best = loss;
  }
  return best;
}

TEST(LossReport, DisablesTheWorstThatALeafCanSpare) {
  // Four ways up from leaf a; three quarters must stay, so one may go: the one that loses most.
  const Fabric fabric =
      with_losses(fabric::generate_fabric("leaf-spine:leaves=2,hosts=2,spines=4"), [](const Link& link) {
        // leaf0 is node 4, spines are 6 to 9
        if (link.from != NodeId{4}) return 0.0;
        return link.to == NodeId{7} ? 0.01 : link.to == NodeId{9} ? 0.02 : 0.0;
      });
  const LossReport report = report_losses(fabric, Fraction(3, 4));
  EXPECT_TRUE(report.is_clos);
  EXPECT_TRUE(report.is_exact);
  ASSERT_EQ(report.cables.size(), 2);
  EXPECT_EQ(report.cables[0].name, "leaf0-spine3");
  EXPECT_EQ(report.cables[0].share_alone, Fraction(3, 4));
  EXPECT_TRUE(report.cables[0].may_alone && report.cables[1].may_alone);
  EXPECT_THAT(disabled(report), ElementsAre("leaf0-spine3"));
  EXPECT_EQ(report.share_left, Fraction(3, 4));
  EXPECT_THAT(disabled(report_losses(fabric, Fraction(1, 2))), ElementsAre("leaf0-spine3", "leaf0-spine1"));
  EXPECT_THAT(disabled(report_losses(fabric, Fraction(4, 5))), ElementsAre());
}

TEST(LossReport, NeverDisablesTheOnlyLinkOfARank) {
  const Fabric fabric = with_losses(fabric::generate_fabric("leaf-spine:leaves=2,hosts=2,spines=4"),
                                    [](const Link& link) { return link.from == NodeId{0} ? 0.5 : 0.0; });
  const LossReport report = report_losses(fabric, Fraction(1, 100));
  ASSERT_EQ(report.cables.size(), 1);
  EXPECT_FALSE(report.cables[0].may_alone);
  EXPECT_EQ(report.cables[0].share_alone, Fraction(0));
  EXPECT_EQ(report.loss_disabled, 0);
}

TEST(LossReport, EqualsEveryChoiceTriedOnSmallClosFabrics) {
  const char* specs[] = {"leaf-spine:leaves=3,hosts=1,spines=4", "fat-tree:k=4", "leaf-spine:leaves=2,hosts=2,spines=6",
                         "rail:boxes=2,gpus=2,spines=3"};
  size_t conflicts = 0, exact = 0, tried = 0;
  for (uint64_t seed = 1; seed <= 120; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    Fabric fabric =
        with_random_losses(fabric::generate_fabric(specs[seed % 4]), random, 2 + random() % 6, random() % 4 == 0);
    const double share = std::array{0.25, 0.5, 0.75, 0.6}[random() % 4];
    const LossReport report = report_losses(fabric, Fraction(static_cast<int64_t>(std::lround(share * 100)), 100));
    if (report.cables.size() > 12) continue;
    ASSERT_TRUE(report.is_clos);
    ++tried;
    exact += report.is_exact;
    const double best = brute_force(fabric, report, share);
    // Small shares may leave ranks with ways to different spines: then some are kept for that.
    if (report.is_exact) {
      EXPECT_NEAR(report.loss_disabled, best, 1e-12);
    }
    EXPECT_LE(report.loss_disabled, best + 1e-12);
    EXPECT_GE(report.share_left, report.share);
    conflicts += best < report.loss;
  }
  EXPECT_GT(conflicts, 30);
  EXPECT_GT(10 * exact, 9 * tried) << exact << " of " << tried;
}

TEST(LossReport, IsExactOnClosFabricsOfAThousandLinks) {
  // 750 cables; leaf-spine of 992; three tiers with every link lossy.
  for (const auto& [spec, rare] : {std::pair<const char*, uint64_t>{"fat-tree:k=10", 1},
                                   {"fat-tree:k=10", 6},
                                   {"leaf-spine:leaves=31,hosts=16,spines=16", 1},
                                   {"fat-tree:k=8", 2}}) {
    SCOPED_TRACE(spec);
    std::mt19937_64 random(7);
    const Fabric fabric = with_random_losses(fabric::generate_fabric(spec), random, rare);
    const LossReport report = report_losses(fabric, Fraction(3, 4));
    EXPECT_TRUE(report.is_exact) << report.loss_disabled << " of " << report.loss_at_most;
    EXPECT_GE(report.share_left, report.share);
    EXPECT_LT(report.loss_disabled, report.loss);
  }
}

// The incremental counts against counting from scratch.
TEST(UpPaths, CountAfterManyChangesWhatCountingFromScratchDoes) {
  const Fabric fabric = fabric::generate_fabric("fat-tree:k=4");
  const fabric::Cables cables(fabric);
  auto paths = UpPaths::of(fabric, cables);
  ASSERT_TRUE(paths.has_value());
  std::mt19937_64 random(1);
  std::set<uint32_t> gone;
  for (int change = 0; change < 300; ++change) {
    const uint32_t c = static_cast<uint32_t>(random() % cables.all().size());
    if (gone.erase(c)) {
      paths->enable(c);
    } else {
      gone.insert(c);
      paths->disable(c);
    }
    std::set<std::pair<NodeId, NodeId>> links;
    for (const uint32_t cable : gone)
      links.insert({{cables[cable].a, cables[cable].b}, {cables[cable].b, cables[cable].a}});
    auto counted = count_ways(fabric, links);
    for (const NodeId rank : fabric.ranks()) ASSERT_EQ(paths->paths(rank), counted[rank]);
  }
}

TEST(UpPaths, AreOfClosFabricsOnly) {
  for (const char* spec : {"torus:4x4", "dragonfly:groups=3,routers=2,hosts=2", "star:4", "dgx-h100:2", "mi250:1"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const fabric::Cables cables(fabric);
    EXPECT_FALSE(UpPaths::of(fabric, cables).has_value()) << spec;
  }
}

TEST(LossReport, GoesByFlowsElsewhere) {
  // A ring: any cable may go at half of the capacity, but not two.
  const Fabric ring =
      fabric::parse_fabric_text("a <-> b 1GB/s loss 0.1; b <-> c 1GB/s loss 0.2; c <-> d 1GB/s; d <-> a 1GB/s");
  const LossReport half = report_losses(ring, Fraction(1, 2));
  EXPECT_FALSE(half.is_clos);
  EXPECT_TRUE(half.is_exact);
  EXPECT_THAT(disabled(half), ElementsAre("b-c"));
  EXPECT_EQ(half.cables[0].share_alone, Fraction(1, 2));
  EXPECT_TRUE(half.cables[1].may_alone);
  EXPECT_THAT(disabled(report_losses(ring, Fraction(3, 4))), ElementsAre());
}

TEST(LossReport, WorstRankKeepsItsShareOnRandomFabrics) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const Fabric plain = banyan::testing::random_fabric({.ranks = 4 + static_cast<uint32_t>(random() % 6),
                                                         .switches = static_cast<uint32_t>(random() % 3),
                                                         .extra_cables = 4 + static_cast<uint32_t>(random() % 10),
                                                         .seed = seed});
    const Fabric fabric = with_random_losses(plain, random, 4, true);
    const LossReport report = report_losses(fabric, Fraction(3, 5));
    EXPECT_GE(report.share_left, report.share);
    EXPECT_TRUE(report.is_exact);
    EXPECT_LE(report.loss_disabled, report.loss + 1e-12);
  }
}

TEST(LossReport, RefusesSharesThatAreNone) {
  const Fabric fabric = fabric::generate_fabric("ring:4");
  for (const Fraction& share : {Fraction(0), Fraction(-1, 2), Fraction(3, 2)}) {
    try {
      report_losses(fabric, share);
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("not above 0 and at most 1"));
    }
  }
}

}  // namespace
}  // namespace banyan::design
