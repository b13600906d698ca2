#include "banyan/plan/bound/bound.h"

#include "banyan/fabric/edit.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/bound/assumed_links.h"
#include "banyan/testing/brute_force_cuts.h"
#include "banyan/testing/random_fabric.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                        CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce};

double algbw_gigabytes(const Bound& bound) { return 1e-9 / bound.seconds_per_byte.to_double(); }

Bound allgather_bound(std::string_view spec) {
  const Fabric fabric = fabric::generate_fabric(spec);
  return compute_bound(fabric, Collective::make(fabric, {}));
}

// Nothing where some participant can only be reached through a rank that does not take part.
std::optional<Fraction> by_brute_force(const Fabric& fabric, const Collective& collective) {
  try {
    return banyan::testing::brute_force_seconds_per_byte(fabric, collective);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// What a random question may ask: any kind, a subset of the ranks, any root, uneven shards.
Collective random_collective(const Fabric& fabric, std::mt19937_64& random) {
  Collective::Options options{.kind = kAllKinds[random() % 5]};
  std::vector<NodeId> ranks(fabric.ranks().begin(), fabric.ranks().end());
  std::shuffle(ranks.begin(), ranks.end(), random);
  if (random() % 3 == 0) ranks.resize(2 + random() % (ranks.size() - 1));
  options.ranks = ranks;
  const bool rooted = options.kind == CollectiveKind::broadcast || options.kind == CollectiveKind::reduce;
  if (rooted) options.root = ranks[random() % ranks.size()];
  if (!rooted && options.kind != CollectiveKind::all_reduce && random() % 2 == 0) {
    for (size_t i = 0; i < ranks.size(); ++i) options.weights.push_back(random() % 4);
    options.weights[random() % ranks.size()] = 1 + random() % 5;
  }
  return Collective::make(fabric, options);
}

TEST(Bound, IsTheWorstOfAllCutsOnHundredsOfRandomFabrics) {
  int answered = 0, cut_off = 0;
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const uint32_t ranks = 2 + static_cast<uint32_t>(random() % 6), switches = static_cast<uint32_t>(random() % 3);
    const Fabric fabric = banyan::testing::random_fabric({.ranks = ranks,
                                                          .switches = switches,
                                                          .extra_cables = static_cast<uint32_t>(random() % 8),
                                                          .max_gigabytes = 1 + static_cast<uint32_t>(random() % 9),
                                                          .directed = random() % 2 == 0,
                                                          .seed = seed});
    const Collective collective = random_collective(fabric, random);
    const std::optional<Fraction> expected = by_brute_force(fabric, collective);
    if (!expected) {
      ++cut_off;
      EXPECT_THROW(compute_bound(fabric, collective), Error);
      continue;
    }
    ++answered;
    const Bound bound = compute_bound(fabric, collective);
    if (collective.kind() == CollectiveKind::all_reduce) {
      // One direction after the other is one way of doing it; overlap_test.cc has what is exact.
      EXPECT_LE(bound.seconds_per_byte, *expected);
      EXPECT_GE(bound.seconds_per_byte * Fraction(2), *expected);
    } else {
      EXPECT_EQ(bound.seconds_per_byte, *expected);
    }
    EXPECT_TRUE(holds(bound.witness, fabric, collective));
  }
  EXPECT_GE(answered, 400);
  RecordProperty("cut_off", cut_off);
}

TEST(Bound, IsThePublishedOptimumOfVendorBoxes) {
  EXPECT_EQ(allgather_bound("dgx-a100:1").seconds_per_byte, Fraction(7, 2'400'000'000'000));
  EXPECT_EQ(allgather_bound("dgx-a100:2").seconds_per_byte, Fraction(3, 1'040'000'000'000));
  EXPECT_EQ(allgather_bound("dgx-h100:2").seconds_per_byte, Fraction(3, 1'600'000'000'000));
  EXPECT_EQ(allgather_bound("mi250:1").seconds_per_byte, Fraction(7, 2'400'000'000'000));
  EXPECT_EQ(allgather_bound("mi250:2").seconds_per_byte, Fraction(15, 5'312'000'000'000));
  EXPECT_EQ(allgather_bound("dgx1-v100:1").seconds_per_byte, Fraction(7, 1'200'000'000'000));
  EXPECT_EQ(allgather_bound("torus:4x4@1GB/s").seconds_per_byte, Fraction(15, 64'000'000'000));
  EXPECT_EQ(allgather_bound("hypercube:4@1GB/s").seconds_per_byte, Fraction(15, 64'000'000'000));
}

TEST(Bound, FollowsTheClosedFormOfBoxesBehindOneSwitch) {
  // algbw = N / max((N-1)/(s+i), (N-g)/(g*i)) for boxes of g ranks, each with s GB/s inside and i GB/s out.
  for (const int boxes : {2, 4, 8, 16}) {
    const double ranks = 8 * boxes;
    EXPECT_NEAR(algbw_gigabytes(allgather_bound("dgx-h100:" + std::to_string(boxes))),
                ranks / std::max((ranks - 1) / 500, (ranks - 8) / 400), 1e-9);
    EXPECT_NEAR(algbw_gigabytes(allgather_bound("dgx-a100:" + std::to_string(boxes))),
                ranks / std::max((ranks - 1) / 325, (ranks - 8) / 200), 1e-9);
  }
  struct Model {
    std::string spec;
    double gpus, inside, nic;
  };
  for (const auto& [spec, gpus, inside, nic] : {Model{"dgx-h200", 8, 450, 50}, Model{"dgx-b200", 8, 900, 50},
                                                Model{"gb200-nvl72", 72, 900, 50}, Model{"mi300x", 8, 448, 50}}) {
    EXPECT_NEAR(algbw_gigabytes(allgather_bound(spec + ":1")), gpus / ((gpus - 1) / inside), 1e-9) << spec;
    for (const int boxes : {2, 3, 8}) {
      const double ranks = gpus * boxes;
      EXPECT_NEAR(algbw_gigabytes(allgather_bound(spec + ":" + std::to_string(boxes))),
                  ranks / std::max((ranks - 1) / (inside + nic), (ranks - gpus) / (gpus * nic)), 1e-9)
          << spec << ":" << boxes;
    }
  }
}

TEST(Bound, OfABroadcastIsTheNarrowestWayOutOfItsRoot) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 4GB/s; b <-> c 3GB/s; a <-> c 2GB/s");
  const auto broadcast = [&](const char* root) {
    return compute_bound(fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast, .root = fabric.at(root)}))
        .seconds_per_byte;
  };
  EXPECT_EQ(broadcast("a"), Fraction(1, 5'000'000'000));  // into c: 3 + 2
  EXPECT_EQ(broadcast("b"), Fraction(1, 5'000'000'000));
  EXPECT_EQ(broadcast("c"), Fraction(1, 5'000'000'000));
}

TEST(Bound, TellsItsWitnessInWords) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:8");
  const Collective allgather = Collective::make(fabric, {});
  const Bound bound = compute_bound(fabric, allgather);
  EXPECT_THAT(describe(bound.witness, fabric, allgather), HasSubstr("must receive 56 of 64 shards over 200 GB/s"));
  const Collective scatter = Collective::make(fabric, {.kind = CollectiveKind::reduce_scatter});
  EXPECT_THAT(describe(compute_bound(fabric, scatter).witness, fabric, scatter),
              HasSubstr("must send 56 of 64 shards out over 200 GB/s"));
}

TEST(Bound, AWitnessThatWasTamperedWithDoesNotHold) {
  const Fabric fabric = fabric::generate_fabric("dgx-a100:2");
  const Collective allgather = Collective::make(fabric, {});
  const CutWitness good = std::get<CutWitness>(compute_bound(fabric, allgather).witness);
  ASSERT_TRUE(holds(good, fabric, allgather));
  CutWitness bad = good;
  ++bad.crossing_weight;
  EXPECT_FALSE(holds(bad, fabric, allgather));
  bad = good;
  --bad.bytes_per_second;
  EXPECT_FALSE(holds(bad, fabric, allgather));
  bad = good;
  bad.inside.push_back(bad.inside.front());
  EXPECT_FALSE(holds(bad, fabric, allgather));
}

TEST(Bound, DoesNotLetRanksThatDoNotTakePartForward) {
  const Fabric path = fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s");
  try {
    compute_bound(path, Collective::make(path, {.ranks = {path.at("a"), path.at("c")}}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("'a' and 'c' can only reach each other through ranks that do not take part"));
  }
}

TEST(Bound, RefusesBandwidthsTooDiverseForExactArithmetic) {
  std::string text;
  for (int i = 0; i < 40; ++i) {
    text += "r" + std::to_string(i) + " <-> r" + std::to_string((i + 1) % 40) + " " +
            std::to_string(999'999'999'999'900 + i) + " B/s;";
  }
  const Fabric fabric = fabric::parse_fabric_text(text + "r0 <-> r20 1 B/s");
  try {
    const Bound bound = compute_bound(fabric, Collective::make(fabric, {.weights = std::vector<uint64_t>(40, 1)}));
    EXPECT_TRUE(holds(bound.witness, fabric, Collective::make(fabric, {})));
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("round them to fewer digits"));
  }
}

// Two servers' sockets: what is assumed is the link between them, and the narrowest cut of all ranks.
TEST(Bound, SaysWhichOfTheLinksThatProveItAreAssumed) {
  const Fabric fabric = fabric::parse_fabric_text(
      "swa <-> swb 6GB/s assumed; a <-> swa 24GB/s; b <-> swa 24GB/s; c <-> swb 24GB/s; d <-> swb 24GB/s assumed");
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                    CollectiveKind::all_reduce, CollectiveKind::all_to_all}) {
    const Collective all = Collective::make(fabric, {.kind = kind});
    const Bound bound = compute_bound(fabric, all);
    EXPECT_EQ(describe_assumed(assumed_links(bound.witness, fabric, all), fabric), "swa-swb (6 GB/s)")
        << to_string(kind);
    const Collective near = Collective::make(fabric, {.kind = kind, .ranks = {fabric.at("a"), fabric.at("b")}});
    EXPECT_TRUE(assumed_links(compute_bound(fabric, near).witness, fabric, near).empty()) << to_string(kind);
  }
  const fabric::FabricEdit given{fabric::FabricEdit::Kind::degrade, "swa-swb=6GB/s"};
  const Fabric known = fabric::edit_fabric(fabric, {&given, 1});
  const Collective all = Collective::make(known, {});
  EXPECT_TRUE(assumed_links(compute_bound(known, all).witness, known, all).empty());
}

Fabric with_faster_link(const Fabric& fabric, uint32_t faster, bool all_assumed) {
  Fabric::Builder builder;
  for (const Node& node : fabric.nodes()) builder.add_node(node);
  for (uint32_t number = 0; number < fabric.links().size(); ++number) {
    Link link = fabric.link(LinkId{number});
    if (number == faster) link.bandwidth = Bandwidth::bytes_per_second(link.bandwidth.bytes_per_second() * 2);
    link.assumed = all_assumed;
    builder.add_link(link);
  }
  return std::move(builder).build();
}

// Whatever the proof: it holds for as long as none of the links that are named has another bandwidth.
TEST(Bound, NamesEveryLinkWhoseBandwidthProvesIt) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    const Fabric fabric = with_faster_link(
        testing::random_fabric({.ranks = 4, .switches = 2, .directed = random() % 2 == 0, .seed = random()}),
        UINT32_MAX, true);
    const Collective collective = random_collective(fabric, random);
    if (!by_brute_force(fabric, collective)) continue;
    const Witness witness = compute_bound(fabric, collective).witness;
    const std::vector<LinkId> named = assumed_links(witness, fabric, collective);
    EXPECT_FALSE(named.empty());
    const auto* cuts = std::get_if<CutsWitness>(&witness);
    for (uint32_t number = 0; number < fabric.links().size(); ++number) {
      const bool is_named = std::ranges::binary_search(named, LinkId{number});
      // Another bandwidth of any link may end the likeness by which the images of a cut are found.
      if (!is_named && cuts != nullptr && cuts->over_images) continue;
      EXPECT_EQ(holds(witness, with_faster_link(fabric, number, true), collective), !is_named)
          << to_string(collective.kind()) << ", link " << number;
    }
  }
}

}  // namespace
}  // namespace banyan::plan
