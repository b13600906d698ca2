#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/baselines/test_baselines.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/brute_force_cuts.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce};

Schedule plan(Baseline baseline, const Fabric& fabric, const Collective::Options& options = {}) {
  return plan_baseline(baseline, fabric, Collective::make(fabric, options));
}

std::string refusal(Baseline baseline, const Fabric& fabric, const Collective::Options& options = {}) {
  try {
    plan(baseline, fabric, options);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    return error.what();
  }
  return "";
}

// M bytes in this many seconds per byte, with links of 1 GB/s.
Fraction per_gigabyte(int64_t numerator, int64_t denominator) {
  return Fraction(numerator, int128{denominator} * 1'000'000'000);
}

void expect_valid(const Schedule& schedule) {
  const schedule::Verdict verdict = verify(schedule, seconds_per_byte(schedule));
  EXPECT_TRUE(verdict.valid) << verdict.reason;
}

// Every fabric with the baselines that exist on it for allgather: with one letter each, in the order of
// kAllBaselines.
struct Existing {
  const char* spec;
  const char* baselines;
};

TEST(Baselines, PassTheVerifierForEveryCollectiveWhereTheyExist) {
  for (const auto& [spec, existing] :
       {Existing{"dgx-a100:2", "rb12dhn"}, Existing{"mi250:2", "rb12dhn"}, Existing{"dgx1-v100:2", "rb12dhn"},
        Existing{"leaf-spine:leaves=4,hosts=4,spines=2", "rb12dhn"}, Existing{"rail:boxes=2,gpus=4", "rb..dhn"},
        Existing{"ring:8", "rb....n"}, Existing{"torus:4x4", "rb....n"}, Existing{"hypercube:3", "rb..d.n"},
        Existing{"star:5", "rb12..n"}, Existing{"full:6", "rb12..n"}, Existing{"kautz:n=12,d=3", "r.....n"}}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const Baseline baseline : kAllBaselines) {
      const bool exists = existing[static_cast<size_t>(baseline)] != '.';
      for (const CollectiveKind kind : kAllKinds) {
        SCOPED_TRACE(::testing::Message() << spec << " " << to_string(baseline) << " " << to_string(kind));
        const bool rooted = kind == CollectiveKind::broadcast || kind == CollectiveKind::reduce;
        if (exists) {
          expect_valid(plan(baseline, fabric, {.kind = kind}));
        } else if (!rooted) {  // one tree may be possible where one for every root is not
          EXPECT_NE(refusal(baseline, fabric, {.kind = kind}), "");
        }
      }
    }
  }
}

TEST(Baselines, ServeSubsetsOddRootsAndUnevenShards) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:2");
  const std::vector<NodeId> six{fabric.at("gpu9"), fabric.at("gpu1"),  fabric.at("gpu12"),
                                fabric.at("gpu3"), fabric.at("gpu15"), fabric.at("gpu4")};
  for (const Baseline baseline : kAllBaselines) {
    SCOPED_TRACE(to_string(baseline));
    for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
      const Schedule rooted = plan(baseline, fabric, {.kind = kind, .ranks = six, .root = six[3]});
      expect_valid(rooted);
      EXPECT_EQ(rooted.chunk(0).root, six[3]);
    }
    if (baseline == Baseline::recursive_doubling) continue;  // six is no power of two
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter}) {
      const Schedule uneven = plan(baseline, fabric, {.kind = kind, .ranks = six, .weights = {3, 0, 1, 5, 0, 2}});
      expect_valid(uneven);
      EXPECT_EQ(uneven.shard_range(0, 1100), (std::pair<uint64_t, uint64_t>{0, 300}));
      EXPECT_EQ(uneven.total_units() % 11, 0u);
      EXPECT_EQ(uneven.chunk_count() % 4, 0u);
    }
  }
}

TEST(Baselines, RingReachesTheBoundOnARing) {
  // A one-way ring admits nothing else; on a two-way ring both ways are needed.
  const Fabric one_way = fabric::parse_fabric_text("a -> b 1GB/s; b -> c 1GB/s; c -> d 1GB/s; d -> a 1GB/s");
  const Fabric two_way = fabric::generate_fabric("ring:8@1GB/s");
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce}) {
    const Schedule ring = plan(Baseline::ring, one_way, {.kind = kind});
    EXPECT_EQ(seconds_per_byte(ring), testing::brute_force_seconds_per_byte(one_way, ring.collective()));
    const Schedule both = plan(Baseline::bidirectional_ring, two_way, {.kind = kind});
    EXPECT_EQ(seconds_per_byte(both), testing::brute_force_seconds_per_byte(two_way, both.collective()));
  }
}

TEST(Baselines, RingsUseEachHopForAllShardsButOne) {
  const Fabric torus = fabric::generate_fabric("torus:4x4@1GB/s");
  EXPECT_EQ(seconds_per_byte(plan(Baseline::ring, torus)), per_gigabyte(15, 16));
  EXPECT_EQ(seconds_per_byte(plan(Baseline::bidirectional_ring, torus)), per_gigabyte(15, 32));
  EXPECT_EQ(seconds_per_byte(plan(Baseline::ring, torus, {.kind = CollectiveKind::all_reduce})), per_gigabyte(30, 16));
  EXPECT_EQ(seconds_per_byte(plan(Baseline::ring, torus, {.kind = CollectiveKind::broadcast})), per_gigabyte(1, 1));
  EXPECT_EQ(seconds_per_byte(plan(Baseline::bidirectional_ring, torus, {.kind = CollectiveKind::reduce})),
            per_gigabyte(1, 2));
  EXPECT_EQ(heights(plan(Baseline::ring, torus)).max, 15u);
}

TEST(Baselines, CostWhatAHandCounts) {
  const Fabric star = fabric::generate_fabric("star:4@1GB/s");
  // Allgather: every rank must receive three quarters, and the star's only limit is that link or the one out.
  EXPECT_EQ(seconds_per_byte(plan(Baseline::ring, star)), per_gigabyte(3, 4));
  EXPECT_EQ(seconds_per_byte(plan(Baseline::recursive_doubling, star)), per_gigabyte(3, 4));
  // Broadcast to three: the binary tree's root has two children, one of which has one; the binomial tree alike.
  EXPECT_EQ(seconds_per_byte(plan(Baseline::binary_tree, star, {.kind = CollectiveKind::broadcast})),
            per_gigabyte(2, 1));
  EXPECT_EQ(seconds_per_byte(plan(Baseline::recursive_doubling, star, {.kind = CollectiveKind::broadcast})),
            per_gigabyte(2, 1));
  // Two halves: the root sends both, an inner node sends one of them twice.
  EXPECT_EQ(seconds_per_byte(plan(Baseline::double_binary_tree, star, {.kind = CollectiveKind::broadcast})),
            per_gigabyte(1, 1));
  // Pairwise exchange: 1/4 with the near partner, 2/4 with the far one, on cables of their own.
  const Fabric square = fabric::generate_fabric("hypercube:2@1GB/s");
  EXPECT_EQ(seconds_per_byte(plan(Baseline::recursive_doubling, square)), per_gigabyte(2, 4));
}

TEST(Baselines, HierarchicalRingReachesTheBoundOfManyBoxes) {
  // 64 GPUs, each NIC carries 7 of 64 shards: 64/7 * 25 GB/s, which is the optimum of this fabric.
  const Schedule schedule = plan(Baseline::hierarchical_ring, fabric::generate_fabric("dgx-a100:8"));
  EXPECT_EQ(seconds_per_byte(schedule), per_gigabyte(7, 64 * 25));
  EXPECT_EQ(heights(schedule).max, 7u + 7u);
}

TEST(Baselines, RecursiveDoublingTiesAllShardsOfAStep) {
  const Fabric fabric = fabric::generate_fabric("hypercube:3");
  const Schedule schedule = plan(Baseline::recursive_doubling, fabric, {.kind = CollectiveKind::all_reduce});
  expect_valid(schedule);
  EXPECT_EQ(heights(schedule).max, 3u + 3u);
  // By step, how many shards a rank sends as one message: halving, then doubling.
  std::vector<size_t> sent(7, 0);
  const NodeId rank = fabric.ranks()[5];
  for (size_t c = 0; c < schedule.chunk_count(); ++c) {
    const Chunk chunk = schedule.chunk(c);
    for (size_t e = 0; e < chunk.in_tree.size(); ++e) {
      if (schedule.route(chunk.in_tree[e]).from == rank) ++sent.at(chunk.in_steps[e]);
    }
    for (size_t e = 0; e < chunk.out_tree.size(); ++e) {
      if (schedule.route(chunk.out_tree[e]).from == rank) ++sent.at(chunk.out_steps[e]);
    }
  }
  EXPECT_THAT(sent, ::testing::ElementsAre(0, 4, 2, 1, 1, 2, 4));
}

TEST(Baselines, ABroadcastNeedsNoClosedRing) {
  const Fabric path = fabric::parse_fabric_text("b <-> a 1GB/s; a <-> c 1GB/s; c <-> d 1GB/s");
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    const Schedule schedule = plan(Baseline::ring, path, {.kind = kind, .root = path.at("d")});
    expect_valid(schedule);
    EXPECT_EQ(heights(schedule).max, 3u);
  }
  const Fabric one_way =
      fabric::parse_fabric_text("a -> b 1GB/s; b -> c 1GB/s; c -> b 1GB/s; b -> a 1GB/s; d -> c 1GB/s; b -> d 1GB/s");
  expect_valid(plan(Baseline::ring, one_way, {.kind = CollectiveKind::reduce, .root = one_way.at("a")}));
  EXPECT_THAT(refusal(Baseline::ring, path), ::testing::HasSubstr("no ring"));
  EXPECT_THAT(refusal(Baseline::ring, path, {.kind = CollectiveKind::broadcast, .root = path.at("a")}),
              ::testing::HasSubstr("no ring"));
}

TEST(Baselines, RefuseWithTheReason) {
  const Fabric ring = fabric::generate_fabric("ring:6");
  EXPECT_THAT(refusal(Baseline::binary_tree, ring),
              ::testing::MatchesRegex("no route from gpu[0-9] to gpu[0-9] without passing through a rank"));
  EXPECT_EQ(refusal(Baseline::recursive_doubling, ring), "recursive doubling needs a power of two of ranks, not 6");
  EXPECT_THAT(refusal(Baseline::hierarchical_ring, ring), ::testing::StartsWith("all ranks are in one box"));
  const Fabric boxes = fabric::generate_fabric("dgx-a100:4");
  const std::vector<NodeId> one_each{boxes.at("gpu0"), boxes.at("gpu8"), boxes.at("gpu16")};
  EXPECT_THAT(refusal(Baseline::hierarchical_ring, boxes, {.ranks = one_each}),
              ::testing::StartsWith("every box has one rank only"));
  // Two ranks away from each other with a rank between that takes no part.
  EXPECT_THAT(refusal(Baseline::ring, ring, {.ranks = {ring.at("gpu0"), ring.at("gpu2")}}),
              ::testing::HasSubstr("no ring"));
  EXPECT_THAT(refusal(Baseline::ring, fabric::generate_fabric("star:20000")),
              ::testing::HasSubstr("the limit is 268435456"));
}

TEST(Baselines, PlanAThousandRanksWithSharedRoutes) {
  const Schedule schedule = plan(Baseline::ring, fabric::generate_fabric("dgx-h100:128"));
  EXPECT_EQ(schedule.chunk_count(), 1024u);
  EXPECT_EQ(schedule.route_count(), 1024u);
  expect_valid(schedule);
}

TEST(Baselines, NamesAreTheirOwn) {
  std::vector<std::string_view> names;
  for (const Baseline baseline : kAllBaselines) names.push_back(to_string(baseline));
  EXPECT_THAT(names, ::testing::ElementsAre("ring", "bidirectional-ring", "binary-tree", "double-binary-tree",
                                            "recursive-doubling", "hierarchical-ring", "nccl-rings"));
}

// Eight rings, each of which leaves and enters a box by another NIC. One ring uses one of eight.
TEST(Baselines, LibraryRingsUseEveryNicOfABoxAndEveryLinkOfAMesh) {
  const auto rate = [](Baseline baseline, const char* spec) {
    const Schedule schedule = plan(baseline, fabric::generate_fabric(spec));
    expect_valid(schedule);
    return std::pair(seconds_per_byte(schedule), schedule.chunk_count());
  };
  EXPECT_EQ(rate(Baseline::nccl_rings, "dgx-h100:2"), std::pair(per_gigabyte(15, 16 * 400), size_t{128}));
  EXPECT_EQ(rate(Baseline::ring, "dgx-h100:2"), std::pair(per_gigabyte(15, 16 * 50), size_t{16}));
  EXPECT_EQ(rate(Baseline::nccl_rings, "ring:8@1GB/s"), std::pair(per_gigabyte(7, 16), size_t{16})) << "both ways";
  EXPECT_EQ(rate(Baseline::nccl_rings, "torus:4x4@1GB/s"), std::pair(per_gigabyte(15, 64), size_t{64})) << "four rings";
  // Inside the boxes along their mesh; in the order of the ranks, rings would cross NICs there, at 16.5 GB/s.
  EXPECT_EQ(rate(Baseline::nccl_rings, "mi250:2"), std::pair(per_gigabyte(31, 32 * 128), size_t{512}));
  EXPECT_EQ(rate(Baseline::nccl_rings, "star:5@1GB/s"), std::pair(per_gigabyte(4, 5), size_t{5})) << "one";
}

}  // namespace
}  // namespace banyan::plan
