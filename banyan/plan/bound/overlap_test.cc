#include "banyan/plan/bound/overlap.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/powers.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/bound/cuts_witness.h"
#include "banyan/plan/bound/overlap_program.h"
#include "banyan/plan/bound/overlap_rounding.h"
#include "banyan/plan/graph/arc_classes.h"
#include "banyan/testing/allreduce_program.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

Collective allreduce(const Fabric& fabric) { return Collective::make(fabric, {.kind = CollectiveKind::all_reduce}); }

double throughput(const Fraction& seconds_per_byte) { return 1 / seconds_per_byte.to_double(); }

Fabric random_fabric_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  return banyan::testing::random_fabric({.ranks = 2 + static_cast<uint32_t>(random() % 7),
                                         .switches = static_cast<uint32_t>(random() % 3),
                                         .extra_cables = static_cast<uint32_t>(random() % 10),
                                         .max_gigabytes = 1 + static_cast<uint32_t>(random() % 9),
                                         .directed = random() % 2 == 0,
                                         .seed = seed});
}

// Counts what a witness proves anew: costs by link, over all images that are named, none averaged.
Fraction proven_by_hand(const CutsWitness& witness, const Fabric& fabric) {
  std::vector<Fraction> spread(fabric.links().size()), gather(fabric.links().size());
  std::vector<Fraction> crossings(fabric.nodes().size());
  for (const CutsWitness::Cut& cut : witness.cuts) {
    std::vector<bool> inside(fabric.nodes().size(), false);
    for (const NodeId id : cut.inside) inside[index(id)] = true;
    for (const NodeId rank : fabric.ranks()) {
      if (inside[index(rank)]) crossings[index(rank)] = crossings[index(rank)] + Fraction(cut.times);
    }
    for (size_t l = 0; l < fabric.links().size(); ++l) {
      const Link& link = fabric.links()[l];
      if (inside[index(cut.gathering ? link.to : link.from)] && !inside[index(cut.gathering ? link.from : link.to)]) {
        Fraction& cost = (cut.gathering ? gather : spread)[l];
        cost = cost + Fraction(cut.times);
      }
    }
  }
  for (const CutsWitness::Potential& potential : witness.potentials) {
    for (size_t l = 0; l < fabric.links().size(); ++l) {
      Fraction& cost = (potential.gathering ? gather : spread)[l];
      if (fabric.links()[l].to == potential.at) cost = cost + Fraction(potential.height);
      if (fabric.links()[l].from == potential.at) cost = cost - Fraction(potential.height);
    }
  }
  Fraction total;
  for (size_t l = 0; l < fabric.links().size(); ++l) {
    const Fraction bandwidth(static_cast<int128>(fabric.links()[l].bandwidth.bytes_per_second()), 1);
    total = total + bandwidth * std::max({spread[l], gather[l], Fraction(0)});
  }
  Fraction least = crossings[index(fabric.ranks()[0])];
  for (const NodeId rank : fabric.ranks()) least = std::min(least, crossings[index(rank)]);
  return least / total;
}

// The witness with all its images where these are spreading turned round, written out.
CutsWitness written_out(const CutsWitness& witness) {
  CutsWitness result = witness;
  for (CutsWitness::Cut cut : witness.cuts) {
    cut.gathering = !cut.gathering;
    result.cuts.push_back(cut);
  }
  for (CutsWitness::Potential potential : witness.potentials) {
    potential.gathering = !potential.gathering;
    result.potentials.push_back(potential);
  }
  result.over_images = false;
  return result;
}

TEST(Overlap, IsTheProgramOfAllFlowsOnRandomFabrics) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Fabric fabric = random_fabric_of(seed);
    const Collective collective = allreduce(fabric);
    const Overlap overlap = solve_overlap(fabric, collective);
    const double expected = banyan::testing::allreduce_throughput(fabric, collective);
    EXPECT_NEAR(throughput(overlap.witness.bound), expected, 1e-6 * expected);
    EXPECT_TRUE(holds(overlap.witness, fabric, collective));
    ASSERT_TRUE(overlap.shares.has_value());
    EXPECT_EQ(overlap.shares->seconds_per_byte(Network(fabric, collective, false)), overlap.witness.bound);
  }
}

TEST(Overlap, LetsTreesBranchAtSwitchesThatMulticastAndReduce) {
  for (const uint32_t ranks : {3u, 5u}) {
    for (uint64_t seed = 1; seed <= 200; ++seed) {
      SCOPED_TRACE(::testing::Message() << ranks << " ranks, seed " << seed);
      std::mt19937_64 random(seed);
      const Fabric fabric = banyan::testing::random_fabric({.ranks = ranks,
                                                            .switches = 1 + static_cast<uint32_t>(random() % 3),
                                                            .extra_cables = static_cast<uint32_t>(random() % 10),
                                                            .max_gigabytes = 1 + static_cast<uint32_t>(random() % 9),
                                                            .directed = random() % 2 == 0,
                                                            .powers = true,
                                                            .seed = seed});
      const Collective collective = allreduce(fabric);
      const Overlap overlap = solve_overlap(fabric, collective);
      const double expected = banyan::testing::allreduce_throughput(fabric, collective);
      EXPECT_NEAR(throughput(overlap.witness.bound), expected, 1e-6 * expected);
      EXPECT_TRUE(holds(overlap.witness, fabric, collective));
      if (!overlap.shares) continue;
      EXPECT_LE(overlap.witness.bound, overlap.shares->seconds_per_byte(Network(fabric, collective, false)));
      // Switches that do more make nothing slower.
      EXPECT_LE(overlap.witness.bound, solve_overlap(fabric::without_powers(fabric), collective).witness.bound);
    }
  }
}

TEST(Overlap, SpansSwitchesThatHaveRoomForAllTrees) {
  const auto spanned = [](const char* spec) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const Overlap overlap = solve_overlap(fabric, allreduce(fabric));
    std::string names;
    if (!overlap.shares) return names;
    EXPECT_EQ(overlap.shares->terminals.spread, overlap.shares->terminals.gather);
    for (const NodeId id : overlap.shares->terminals.spread) names += fabric.name(id) + " ";
    return names;
  };
  EXPECT_EQ(spanned("dgx-h100:2+nvls"), "nvsw0 nvsw1 ");
  EXPECT_EQ(spanned("dgx-h100:2"), "");
  EXPECT_EQ(spanned("dgx-a100:1+nvls"), "nvsw0 ");
}

TEST(Overlap, NoPotentialStandsWhereTreesMayBranch) {
  const Fabric fabric = fabric::parse_fabric_text(
      "s: switch multicast reduce; t: switch multicast; a <-> s 2GB/s; b <-> s 2GB/s; c <-> s 1GB/s; a <-> t 1GB/s; "
      "b <-> t 1GB/s; c <-> t 3GB/s");
  const Collective collective = allreduce(fabric);
  const CutsWitness good = solve_overlap(fabric, collective).witness;
  ASSERT_TRUE(holds(good, fabric, collective));
  for (const char* name : {"s", "t"}) {
    for (const bool gathering : {false, true}) {
      CutsWitness bad = good;
      bad.potentials.push_back({.gathering = gathering, .at = fabric.at(name), .height = 1});
      const Network network(fabric, collective, false);
      EXPECT_EQ(count_crossings(bad, fabric, network, ArcClasses::alone(network)).has_value(),
                std::string(name) == "t" && gathering);
    }
  }
}

TEST(Overlap, ReachesWhatIsKnownOfUnevenGraphs) {
  const auto gigabytes = [](const char* text) {
    const Fabric fabric = fabric::parse_fabric_text(text);
    return throughput(compute_bound(fabric, allreduce(fabric)).seconds_per_byte) * 1e-9;
  };
  EXPECT_DOUBLE_EQ(gigabytes("a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s"), 1);
  // A tree is spent on each of four spokes of a wheel and a quarter of a rim: 16 of capacity, 4 for a tree.
  EXPECT_DOUBLE_EQ(gigabytes("h <-> a 3GB/s; h <-> b 3GB/s; h <-> c 3GB/s; h <-> d 3GB/s; "
                             "a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s; d <-> a 1GB/s"),
                   4);
  // Of a graph without switches whose links go both ways it is the strength of the graph (Tutte; Nash-Williams): the
  // least over partitions of bandwidth between parts over parts - 1.
  for (const auto& [spec, strength] : {std::pair{"mesh:4x4@1GB/s", 24.0 / 15}, std::pair{"ring:6@1GB/s", 6.0 / 5},
                                       std::pair{"full:5@1GB/s", 2.5}, std::pair{"torus:4x4@1GB/s", 32.0 / 15}}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    EXPECT_NEAR(throughput(compute_bound(fabric, allreduce(fabric)).seconds_per_byte), strength * 1e9, 1) << spec;
  }
}

TEST(Overlap, OnEvenBoxesIsAReduceScatterAndThenAnAllgather) {
  for (const char* spec :
       {"dgx-h100:2", "dgx-h100:8", "dgx-h100:128", "mi250:2", "dgx1-v100:2", "rail:boxes=4,gpus=8"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const Fraction scatter =
        compute_bound(fabric, Collective::make(fabric, {.kind = CollectiveKind::reduce_scatter})).seconds_per_byte;
    const Fraction gather = compute_bound(fabric, Collective::make(fabric, {})).seconds_per_byte;
    EXPECT_EQ(compute_bound(fabric, allreduce(fabric)).seconds_per_byte, scatter + gather) << spec;
  }
}

// Random fabrics declare no symmetry and have few parallel links, so that all images are spreading turned round.
TEST(Overlap, AWitnessProvesAsMuchWhenItsImagesAreWrittenOut) {
  int counted = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Fabric fabric = random_fabric_of(seed);
    const Collective collective = allreduce(fabric);
    const CutsWitness witness = solve_overlap(fabric, collective).witness;
    const Network network(fabric, collective, false);
    const ArcClasses classes(network, fabric);
    if (classes.arc_classes() < network.arcs().size()) continue;
    ++counted;
    EXPECT_EQ(proven_by_hand(classes.is_symmetric() ? written_out(witness) : witness, fabric), witness.bound);
  }
  EXPECT_GE(counted, 80);
}

TEST(Overlap, AWitnessThatWasTamperedWithDoesNotHold) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=2,hosts=3,spines=1");
  const Collective collective = allreduce(fabric);
  const CutsWitness good = solve_overlap(fabric, collective).witness;
  ASSERT_TRUE(holds(good, fabric, collective));
  EXPECT_FALSE(holds(good, fabric, Collective::make(fabric, {})));
  const auto fails = [&](auto change) {
    CutsWitness bad = good;
    change(bad);
    return !holds(bad, fabric, collective);
  };
  EXPECT_TRUE(fails([](CutsWitness& bad) { bad.bound = bad.bound * Fraction(11, 10); }));
  EXPECT_TRUE(fails([](CutsWitness& bad) { bad.cuts.front().times = 0; }));
  EXPECT_TRUE(fails([](CutsWitness& bad) { bad.cuts.clear(); }));
  EXPECT_TRUE(fails([](CutsWitness& bad) { bad.cuts.front().inside.push_back(bad.cuts.front().inside.front()); }));
  EXPECT_TRUE(
      fails([&](CutsWitness& bad) { bad.cuts.front().inside.assign(fabric.ranks().begin(), fabric.ranks().end()); }));
  EXPECT_TRUE(fails([&](CutsWitness& bad) { bad.potentials.push_back({.at = fabric.ranks()[0], .height = 1}); }));
}

TEST(Overlap, ThatIsGivenUpStillHasABound) {
  const Fabric fabric = fabric::generate_fabric("random:n=64,links=150,seed=1");
  const Collective collective = allreduce(fabric);
  const OverlapQuestion question(fabric, collective, nullptr);
  OverlapProgram program(question);
  WorkLeft little(1);
  EXPECT_THROW(program.solve(little), WorkLeft::Exhausted);
  // Without any answer, what the rank of the thinnest links proves; later what the cuts of the last answer do.
  const CutsWitness first = rounded_witness(program, question);
  EXPECT_TRUE(holds(first, fabric, collective));
  OverlapProgram again(question);
  WorkLeft enough(1'000'000'000);
  again.solve(enough);
  const CutsWitness later = rounded_witness(again, question);
  EXPECT_TRUE(holds(later, fabric, collective));
  EXPECT_LE(first.bound, later.bound);
  EXPECT_LE(later.bound, solve_overlap(fabric, collective).witness.bound);
}

TEST(Overlap, SharesOfOddBandwidthsAreRoundedDownALittle) {
  std::string text;
  std::mt19937_64 random(11);
  for (int i = 0; i < 12; ++i) {
    for (const int step : {1, 4}) {
      text += "r" + std::to_string(i) + " <-> r" + std::to_string((i + step) % 12) + " " +
              std::to_string(10'000'000'000 + random() % 40'000'000'000) + "B/s;";
    }
    text += "r" + std::to_string(i) + " <-> sw" + std::to_string(i / 6) + " 12345678901B/s;";
  }
  const Fabric fabric = fabric::parse_fabric_text(text + "sw0 <-> sw1 30000000001B/s");
  const Collective collective = allreduce(fabric);
  const Overlap overlap = solve_overlap(fabric, collective);
  EXPECT_TRUE(holds(overlap.witness, fabric, collective));
  ASSERT_TRUE(overlap.shares.has_value());
  const Fraction reached = overlap.shares->seconds_per_byte(Network(fabric, collective, false));
  EXPECT_LE(overlap.witness.bound, reached);
  EXPECT_LE(reached.to_double(), overlap.witness.bound.to_double() * 1.001);
}

TEST(Overlap, IsTheSameEveryTime) {
  const Fabric fabric = fabric::generate_fabric("random:n=24,links=60,seed=7");
  const Overlap a = solve_overlap(fabric, allreduce(fabric)), b = solve_overlap(fabric, allreduce(fabric));
  EXPECT_EQ(a.rounds, b.rounds);
  EXPECT_EQ(describe(a.witness, fabric, allreduce(fabric)), describe(b.witness, fabric, allreduce(fabric)));
  ASSERT_TRUE(a.shares && b.shares);
  EXPECT_EQ(a.shares->spread, b.shares->spread);
  EXPECT_EQ(a.shares->supply, b.shares->supply);
}

}  // namespace
}  // namespace banyan::plan
