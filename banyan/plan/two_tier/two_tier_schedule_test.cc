#include "banyan/plan/two_tier/two_tier_schedule.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/two_tier/test_traffic.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

Schedule planned(const Fabric& fabric, const Traffic& traffic) {
  return two_tier_schedule(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_to_all, .traffic = traffic}));
}

// What the box with most to send or receive needs of its NICs, per byte of M: no schedule is quicker. Ranks stand box
// by box.
Fraction of_nics(const Traffic& traffic, uint32_t ranks, uint32_t gpus, Bandwidth nic) {
  std::vector<int64_t> sent(ranks / gpus), received(ranks / gpus);
  int64_t all = 0, most = 0;
  for (uint32_t from = 0; from < ranks; ++from)
    for (uint32_t to = 0; to < ranks; ++to) {
      const auto bytes = static_cast<int64_t>(traffic[from * ranks + to]);
      all += bytes;
      if (from / gpus == to / gpus) continue;
      most = std::max({most, sent[from / gpus] += bytes, received[to / gpus] += bytes});
    }
  return Fraction(most, all) * Fraction(ranks) /
         (Fraction(gpus) * Fraction(static_cast<int64_t>(nic.bytes_per_second())));
}

TEST(TwoTierSchedule, IsAsQuickAsTheNicsOfTheBusiestBox) {
  for (const uint32_t boxes : {2u, 4u}) {
    const Fabric fabric = fabric::generate_fabric("dgx-h100:" + std::to_string(boxes));
    const uint32_t ranks = boxes * 8;
    for (uint64_t seed = 1; seed <= 10; ++seed)
      for (const double skew : {-1.0, 0.0, 0.5}) {
        SCOPED_TRACE("boxes " + std::to_string(boxes) + " seed " + std::to_string(seed) + " skew " +
                     std::to_string(skew));
        const Traffic traffic =
            skew < 0 ? random_traffic(ranks, 1000, seed) : zipf_traffic(ranks, skew, 1'000'000, seed);
        const schedule::Verdict verdict =
            verify(planned(fabric, traffic), of_nics(traffic, ranks, 8, Bandwidth::gigabytes_per_second(50)));
        EXPECT_TRUE(verdict.valid) << verdict.reason;
      }
  }
}

TEST(TwoTierSchedule, OfSkewedTrafficIsAccepted) {
  for (const char* name : {"dgx-a100:2", "dgx-h100:3", "dgx1-v100:2", "mi250:2", "fat-tree:k=4"}) {
    const Fabric fabric = fabric::generate_fabric(name);
    const auto ranks = static_cast<uint32_t>(fabric.ranks().size());
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(std::string(name) + " seed " + std::to_string(seed));
      const Traffic traffic = zipf_traffic(ranks, 0.9, 1'000'000, seed);
      const schedule::Verdict verdict = verify(planned(fabric, traffic));
      EXPECT_TRUE(verdict.valid) << verdict.reason;
    }
  }
}

// Of the hops between boxes that are tied to one step, all of one box go to one other, from GPU i to GPU i.
TEST(TwoTierSchedule, HasNoIncastInAnyStep) {
  const Fabric fabric = fabric::generate_fabric("dgx-h100:4");
  const Schedule schedule = planned(fabric, random_traffic(32, 1000, 5));
  std::map<NodeId, uint32_t> place;
  for (const NodeId rank : fabric.ranks()) place.emplace(rank, static_cast<uint32_t>(place.size()));
  std::map<std::pair<uint32_t, uint32_t>, std::set<uint32_t>> to, from;  // by step and box
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (size_t hop = 0; hop < chunk.out_tree.size(); ++hop) {
      const Route route = schedule.route(chunk.out_tree[hop]);
      const uint32_t begin = place[route.from], end = place[route.to];
      if (begin / 8 == end / 8) continue;
      EXPECT_EQ(begin % 8, end % 8);
      ASSERT_FALSE(chunk.out_steps.empty());
      to[{chunk.out_steps[hop], begin / 8}].insert(end / 8);
      from[{chunk.out_steps[hop], end / 8}].insert(begin / 8);
    }
  }
  EXPECT_GT(to.size(), 12u);
  for (const auto& [step_and_box, others] : to) EXPECT_EQ(others.size(), 1u) << "step " << step_and_box.first;
  for (const auto& [step_and_box, others] : from) EXPECT_EQ(others.size(), 1u) << "step " << step_and_box.first;
}

TEST(TwoTierSchedule, IsForThoseWhoTakePart) {
  const Fabric fabric = fabric::generate_fabric("dgx-h100:3");
  std::vector<NodeId> ranks;  // three GPUs of the last box, then three of the first
  for (const size_t i : {23, 17, 20, 5, 1, 0}) ranks.push_back(fabric.ranks()[i]);
  const Traffic traffic = random_traffic(6, 100, 3);
  const Collective collective =
      Collective::make(fabric, {.kind = CollectiveKind::all_to_all, .ranks = ranks, .traffic = traffic});
  const schedule::Verdict verdict =
      verify(two_tier_schedule(fabric, collective), of_nics(traffic, 6, 3, Bandwidth::gigabytes_per_second(50)));
  EXPECT_TRUE(verdict.valid) << verdict.reason;
}

TEST(TwoTierSchedule, SaysWhyThereIsNone) {
  const auto why_not = [](const Fabric& fabric, const Collective::Options& options) {
    const Collective collective = Collective::make(fabric, options);
    return testing::error_of([&] { two_tier_schedule(fabric, collective); }, ErrorCode::unsupported);
  };
  const Fabric box = fabric::generate_fabric("dgx-h100:1"), boxes = fabric::generate_fabric("dgx-h100:2");
  EXPECT_EQ(why_not(boxes, {}), "two tiers are for all-to-all, not for allgather");
  EXPECT_EQ(why_not(box, {.kind = CollectiveKind::all_to_all}),
            "all ranks are in one box; two tiers need two boxes or more");
  EXPECT_EQ(why_not(boxes, {.kind = CollectiveKind::all_to_all,
                            .ranks = {boxes.ranks()[0], boxes.ranks()[1], boxes.ranks()[8]}}),
            "two tiers need boxes of equal size: there are some of 2 ranks and of 1");
  // Two boxes that are joined by one pair of ranks alone.
  const Fabric joined = fabric::parse_fabric_text(
      "a <-> nvsw0 100 GB/s; b <-> nvsw0 100 GB/s; c <-> nvsw1 100 GB/s; d <-> nvsw1 100 GB/s; a <-> sw 10 GB/s;"
      "c <-> sw 10 GB/s");
  EXPECT_EQ(why_not(joined, {.kind = CollectiveKind::all_to_all}),
            "no route from b to d without passing through a rank");
}

}  // namespace
}  // namespace banyan::plan
