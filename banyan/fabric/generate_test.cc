#include "banyan/fabric/generate.h"

#include <queue>

#include "banyan/testing/test.h"

namespace banyan::fabric {
namespace {

std::string error_of(const std::string& spec) {
  return testing::error_of([&] { generate_fabric(spec); });
}

double gigabytes(std::span<const LinkId> links, const Fabric& fabric) {
  double sum = 0;
  for (const LinkId id : links) sum += static_cast<double>(fabric.link(id).bandwidth.bytes_per_second()) / 1e9;
  return sum;
}

// The greatest number of links on a shortest way between two ranks.
uint32_t diameter(const Fabric& fabric) {
  uint32_t result = 0;
  for (const NodeId start : fabric.ranks()) {
    std::map<NodeId, uint32_t> distance{{start, 0}};
    std::queue<NodeId> queue({start});
    for (; !queue.empty(); queue.pop()) {
      const NodeId v = queue.front();
      if (fabric.is_rank(v)) result = std::max(result, distance[v]);
      for (const LinkId id : fabric.out_links(v)) {
        if (distance.emplace(fabric.link(id).to, distance[v] + 1).second) queue.push(fabric.link(id).to);
      }
    }
  }
  return result;
}

// Bandwidth that leaves the ranks [begin, end) when `inside` says which further nodes go with them.
template <typename Inside>
double leaving(const Fabric& fabric, Inside inside) {
  double sum = 0;
  for (const Link& link : fabric.links()) {
    if (inside(fabric.name(link.from)) && !inside(fabric.name(link.to))) {
      sum += static_cast<double>(link.bandwidth.bytes_per_second()) / 1e9;
    }
  }
  return sum;
}

struct Fact {
  std::string spec;
  size_t ranks, switches, links;
  uint32_t degree;  // links out of each rank; 0 where ranks differ
  double out;       // GB/s out of each rank; 0 where ranks differ
  uint32_t diameter;
  size_t symmetries;  // order of the group
};
void PrintTo(const Fact& fact, std::ostream* out) { *out << fact.spec; }

class Generator : public ::testing::TestWithParam<Fact> {};

TEST_P(Generator, HasTheShapeThatItsNameStates) {
  const Fact& fact = GetParam();
  const Fabric fabric = generate_fabric(fact.spec);
  EXPECT_EQ(fabric.ranks().size(), fact.ranks);
  EXPECT_EQ(fabric.nodes().size() - fabric.ranks().size(), fact.switches);
  EXPECT_EQ(fabric.links().size(), fact.links);
  for (const NodeId rank : fabric.ranks()) {
    if (fact.degree > 0) {
      EXPECT_EQ(fabric.out_links(rank).size(), fact.degree) << fabric.name(rank);
    }
    if (fact.out > 0) {
      EXPECT_DOUBLE_EQ(gigabytes(fabric.out_links(rank), fabric), fact.out) << fabric.name(rank);
    }
  }
  EXPECT_EQ(diameter(fabric), fact.diameter);
}

TEST_P(Generator, KeepsTheSymmetriesThatItDeclares) {
  const Fabric fabric = generate_fabric(GetParam().spec);
  const size_t order = std::max<size_t>(1, generate_group(fabric.symmetries(), fabric.ranks().size()).size());
  EXPECT_EQ(order, GetParam().symmetries);
}

// What comes into a node can leave it: planners split switches on that ground.
TEST_P(Generator, BalancesInputsAndOutputsOfEveryNode) {
  const Fabric fabric = generate_fabric(GetParam().spec);
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    EXPECT_DOUBLE_EQ(gigabytes(fabric.in_links(NodeId{v}), fabric), gigabytes(fabric.out_links(NodeId{v}), fabric))
        << fabric.name(NodeId{v});
  }
}

TEST_P(Generator, JoinsTwoNodesByOneLinkAWay) {
  const Fabric fabric = generate_fabric(GetParam().spec);
  std::set<std::pair<NodeId, NodeId>> pairs;
  for (const Link& link : fabric.links()) pairs.emplace(link.from, link.to);
  EXPECT_EQ(pairs.size(), fabric.links().size());
}

TEST_P(Generator, GivesTheSameFabricEachTime) {
  EXPECT_EQ(generate_fabric(GetParam().spec).fingerprint(), generate_fabric(GetParam().spec).fingerprint());
}

// The group's order counts the ranks that one plan serves: equal to the ranks where it reaches all of them.
INSTANTIATE_TEST_SUITE_P(
    All, Generator,
    ::testing::Values(
        Fact{"dgx-a100:1", 8, 1, 16, 1, 300, 2, 8}, Fact{"dgx-a100:8", 64, 9, 256, 2, 325, 2, 64},
        Fact{"dgx-h100:2", 16, 3, 64, 2, 500, 2, 16}, Fact{"dgx-h100:2@100GB/s", 16, 3, 64, 2, 550, 2, 16},
        Fact{"dgx-h200:2", 16, 3, 64, 2, 500, 2, 16}, Fact{"dgx-b200:1", 8, 1, 16, 1, 900, 2, 8},
        Fact{"dgx-b200:3", 24, 4, 96, 2, 950, 2, 24}, Fact{"gb200-nvl72:1", 72, 1, 144, 1, 900, 2, 72},
        Fact{"gb200-nvl72:2", 144, 3, 576, 2, 950, 2, 144}, Fact{"mi300x:1", 8, 0, 56, 7, 448, 1, 8},
        Fact{"mi300x:3@12.5GB/s", 24, 1, 216, 8, 460.5, 2, 24}, Fact{"dgx1-v100:1", 8, 0, 32, 4, 150, 2, 4},
        Fact{"dgx1-v100:3", 24, 4, 150, 5, 162.5, 4, 12}, Fact{"mi250:1", 16, 0, 56, 0, 350, 5, 4},
        Fact{"mi250:2", 32, 1, 176, 0, 366, 2, 8}, Fact{"ring:2@1GB/s", 2, 0, 2, 1, 1, 1, 2},
        Fact{"ring:9@2 GB/s", 9, 0, 18, 2, 4, 4, 9}, Fact{"full:7@1GB/s", 7, 0, 42, 6, 6, 1, 7},
        Fact{"star:5@1GB/s", 5, 1, 10, 1, 1, 2, 5}, Fact{"torus:3x3@1GB/s", 9, 0, 36, 4, 4, 2, 9},
        Fact{"torus:4x2@1GB/s", 8, 0, 24, 3, 3, 3, 8}, Fact{"torus:4x3x5@1GB/s", 60, 0, 360, 6, 6, 5, 60},
        Fact{"torus:8x8x8", 512, 0, 3072, 6, 300, 12, 512}, Fact{"torus:2x2x2@1GB/s", 8, 0, 24, 3, 3, 3, 8},
        Fact{"mesh:4x4@1GB/s", 16, 0, 48, 0, 0, 6, 4}, Fact{"mesh:4x3@1GB/s", 12, 0, 34, 0, 0, 5, 2},
        Fact{"mesh:3x3@1GB/s", 9, 0, 24, 0, 0, 4, 1}, Fact{"hypercube:1@1GB/s", 2, 0, 2, 1, 1, 1, 2},
        Fact{"hypercube:6@1GB/s", 64, 0, 384, 6, 6, 6, 64}, Fact{"circulant:16,3,4@1GB/s", 16, 0, 64, 4, 4, 3, 16},
        Fact{"circulant:12,2,3", 12, 0, 48, 4, 200, 2, 12}, Fact{"circulant:8,1,4@1GB/s", 8, 0, 24, 3, 3, 2, 8},
        Fact{"kautz:n=12,d=3@1GB/s", 12, 0, 36, 3, 3, 2, 4}, Fact{"kautz:n=6,d=2@1GB/s", 6, 0, 12, 2, 2, 2, 6},
        Fact{"kautz:n=16,d=4@1GB/s", 16, 0, 60, 0, 0, 2, 2}, Fact{"kautz:n=64,d=4@1GB/s", 64, 0, 252, 0, 0, 3, 2},
        Fact{"kautz:n=9,d=4@1GB/s", 9, 0, 32, 0, 0, 2, 1}, Fact{"debruijn:k=2,n=3@1GB/s", 8, 0, 14, 0, 0, 3, 2},
        Fact{"debruijn:k=3,n=2@1GB/s", 9, 0, 24, 0, 0, 2, 3},
        Fact{"modified-debruijn:k=3,n=3@1GB/s", 27, 0, 81, 3, 3, 3, 3},
        Fact{"bipartite:4x4@1GB/s", 8, 0, 32, 4, 4, 2, 8}, Fact{"bipartite:4x6@1GB/s", 10, 0, 48, 0, 0, 2, 2},
        Fact{"bipartite:1x3@1GB/s", 4, 0, 6, 0, 0, 2, 1}, Fact{"hamming:4x4@1GB/s", 16, 0, 96, 6, 6, 2, 16},
        Fact{"hamming:3x2x4@1GB/s", 24, 0, 144, 6, 6, 3, 24}, Fact{"diamond@1GB/s", 8, 0, 16, 2, 2, 3, 8},
        Fact{"cayley:m=8,k=2,r=7,by=2.1+5.1+1+6@1GB/s", 16, 0, 64, 4, 4, 2, 16},
        Fact{"cayley:m=8,by=1+3@1GB/s", 8, 0, 16, 2, 2, 3, 8}, Fact{"line:(ring:5)@1GB/s", 10, 0, 20, 2, 2, 3, 5},
        Fact{"line:(kautz:n=6,d=2)^2@1GB/s", 24, 0, 48, 2, 2, 4, 6},
        Fact{"line:(bipartite:4x4)@1GB/s", 32, 0, 128, 4, 4, 3, 8},
        Fact{"copies:(ring:4)x2@1GB/s", 8, 0, 32, 4, 4, 2, 8},
        Fact{"copies:(diamond)x3@1GB/s", 24, 0, 144, 6, 6, 3, 24},
        Fact{"product:(ring:4)x(full:3)@1GB/s", 12, 0, 48, 4, 4, 3, 12},
        Fact{"product:(ring:3)x(ring:4)x(line:(ring:5))@1GB/s", 120, 0, 720, 6, 6, 6, 60},
        Fact{"power:(diamond)^2@1GB/s", 64, 0, 256, 4, 4, 6, 64},
        Fact{"leaf-spine:leaves=4,hosts=4,spines=2@10GB/s", 16, 6, 48, 1, 10, 4, 16},
        Fact{"leaf-spine:leaves=3,hosts=1,spines=2,uplink=5GB/s", 3, 5, 18, 1, 50, 4, 3},
        Fact{"fat-tree:k=2", 2, 5, 12, 1, 50, 6, 2}, Fact{"fat-tree:k=4", 16, 20, 96, 1, 50, 6, 16},
        Fact{"fat-tree:k=6@1GB/s", 54, 45, 324, 1, 1, 6, 54}, Fact{"rail:boxes=4,gpus=8", 32, 12, 128, 2, 500, 4, 32},
        Fact{"rail:boxes=4,gpus=8,spines=2@25GB/s", 32, 14, 160, 2, 475, 4, 32},
        Fact{"rail:boxes=1,gpus=2,nvlink=100GB/s", 2, 3, 8, 2, 150, 2, 2},
        Fact{"dragonfly:groups=5,routers=2,hosts=2@1GB/s", 20, 10, 70, 1, 1, 5, 10},
        Fact{"dragonfly:groups=9,routers=4,hosts=2", 72, 36, 324, 1, 50, 5, 18},
        Fact{"dragonfly:groups=3,routers=4,hosts=1,globals=2", 12, 12, 84, 1, 50, 4, 3},
        Fact{"subways:racks=6,hosts=4,ports=2,spines=2", 24, 8, 120, 2, 100, 4, 24},
        Fact{"subways:racks=3,hosts=2,ports=3,spines=1@1GB/s", 6, 4, 42, 3, 3, 2, 6},
        Fact{"subways:racks=5,hosts=1,ports=1,spines=2,uplink=5GB/s", 5, 7, 30, 1, 50, 4, 5},
        Fact{"random:n=16,links=40,seed=7", 16, 0, 80, 0, 0, 3, 1}, Fact{"random:n=5,links=10", 5, 0, 20, 4, 0, 1, 1}));

// Neighbouring racks share switches: with P ports, P racks do, and the last rack shares with the first.
TEST(Generate, SharesSubwaysSwitchesAmongNeighbouringRacks) {
  const Fabric fabric = generate_fabric("subways:racks=5,hosts=2,ports=3,spines=1");
  std::set<std::string> on_tor1;
  for (const LinkId id : fabric.in_links(fabric.at("tor1"))) on_tor1.insert(fabric.name(fabric.link(id).from));
  EXPECT_THAT(on_tor1, ::testing::ElementsAre("gpu0", "gpu1", "gpu2", "gpu3", "gpu8", "gpu9", "spine0"));
}

struct ShufflecastFact {
  std::string spec;
  size_t racks, fanout, columns;
};

TEST(Generate, JoinsShufflecastRacksBySplitters) {
  for (const auto& [spec, racks, fanout, columns] : {ShufflecastFact{"shufflecast:fanout=2,columns=2", 8, 2, 2},
                                                     {"shufflecast:fanout=3,columns=2", 18, 3, 2},
                                                     {"shufflecast:fanout=2,columns=3", 24, 2, 3},
                                                     {"shufflecast:fanout=2,columns=4@10GB/s", 64, 2, 4}}) {
    const Fabric fabric = generate_fabric(spec);
    EXPECT_EQ(fabric.ranks().size(), racks) << spec;
    EXPECT_EQ(fabric.nodes().size(), 2 * racks) << spec;
    EXPECT_EQ(fabric.links().size(), racks * (1 + fanout)) << spec;
    for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
      const NodeId id{v};
      EXPECT_EQ(fabric.out_links(id).size(), fabric.is_rank(id) ? 1u : fanout) << spec << " " << fabric.name(id);
      EXPECT_EQ(fabric.in_links(id).size(), fabric.is_rank(id) ? fanout : 1u) << spec << " " << fabric.name(id);
      EXPECT_EQ(fabric.node(id).multicast, !fabric.is_rank(id)) << spec << " " << fabric.name(id);
    }
    EXPECT_EQ(diameter(fabric), 2 * (2 * columns - 1)) << spec;  // two links for each splitter
    EXPECT_EQ(generate_group(fabric.symmetries(), racks).size(), racks) << spec;
  }
}

TEST(Generate, FeedsAllRacksOfAShufflecastOfOneColumn) {
  const Fabric fabric = generate_fabric("shufflecast:fanout=4,columns=1");
  EXPECT_EQ(fabric.ranks().size(), 4u);
  EXPECT_EQ(fabric.links().size(), 4u + 12u);
  EXPECT_EQ(diameter(fabric), 2u);
  EXPECT_EQ(generate_group(fabric.symmetries(), 4).size(), 4u);
}

// Rack r of a column is heard by racks fanout * r + 0, 1, ... of the next, modulo the racks of a column.
TEST(Generate, WiresShufflecastByAPerfectShuffle) {
  const Fabric fabric = generate_fabric("shufflecast:fanout=2,columns=2");
  std::vector<std::string> heard;
  for (const char* splitter : {"splitter0", "splitter1", "splitter3", "splitter6"}) {
    for (const LinkId id : fabric.out_links(fabric.at(splitter))) heard.push_back(fabric.name(fabric.link(id).to));
  }
  EXPECT_THAT(heard, ::testing::ElementsAre("tor4", "tor5", "tor6", "tor7", "tor6", "tor7", "tor0", "tor1"));
}

// Regular up to what a dropped self-loop takes away: a Kautz node with i = -d*i - a mod n.
TEST(Generate, DropsSelfLoopsOfKautzAndDeBruijn) {
  const Fabric kautz = generate_fabric("kautz:n=64,d=4");
  EXPECT_EQ(std::count_if(kautz.ranks().begin(), kautz.ranks().end(),
                          [&](NodeId v) { return kautz.out_links(v).size() == 3; }),
            4);
  const Fabric debruijn = generate_fabric("debruijn:k=3,n=3");
  for (const char* constant : {"gpu0", "gpu13", "gpu26"}) {
    EXPECT_EQ(debruijn.out_links(debruijn.at(constant)).size(), 2u) << constant;
  }
}

TEST(Generate, PointsKautzLinksByItsRule) {
  const Fabric fabric = generate_fabric("kautz:n=12,d=3");
  std::vector<std::string> targets;
  for (const LinkId id : fabric.out_links(fabric.at("gpu5"))) targets.push_back(fabric.name(fabric.link(id).to));
  EXPECT_THAT(targets, ::testing::ElementsAre("gpu8", "gpu7", "gpu6"));  // -15 - 1, -15 - 2, -15 - 3 modulo 12
}

TEST(Generate, NamesRanksAndSwitchesInOrder) {
  const Fabric boxes = generate_fabric("dgx-h100:2");
  EXPECT_EQ(boxes.name(NodeId{0}), "gpu0");
  EXPECT_EQ(boxes.name(NodeId{15}), "gpu15");
  EXPECT_EQ(boxes.name(NodeId{16}), "nvsw0");
  EXPECT_EQ(boxes.name(NodeId{18}), "ib0");
  const Fabric torus = generate_fabric("torus:3x4x5");
  EXPECT_EQ(torus.name(NodeId{0}), "x0y0z0");
  EXPECT_EQ(torus.name(NodeId{1}), "x1y0z0");
  EXPECT_EQ(torus.name(NodeId{12}), "x0y0z1");
  EXPECT_TRUE(generate_fabric("dragonfly:groups=5,routers=2,hosts=2").find("g4r1").has_value());
}

TEST(Generate, LetsEachBoxOutThroughItsNics) {
  const auto first_box = [](uint32_t gpus) {
    return [gpus](const std::string& name) {
      if (name == "nvsw0" || name == "pcie0") return true;
      return name.starts_with("gpu") && std::stoul(name.substr(3)) < gpus;
    };
  };
  EXPECT_DOUBLE_EQ(leaving(generate_fabric("dgx-a100:4"), first_box(8)), 200);
  EXPECT_DOUBLE_EQ(leaving(generate_fabric("dgx-h100:4"), first_box(8)), 400);
  EXPECT_DOUBLE_EQ(leaving(generate_fabric("dgx-b200:4"), first_box(8)), 400);
  EXPECT_DOUBLE_EQ(leaving(generate_fabric("gb200-nvl72:3"), first_box(72)), 3600);
  EXPECT_DOUBLE_EQ(leaving(generate_fabric("mi300x:4"), first_box(8)), 400);
  EXPECT_DOUBLE_EQ(leaving(generate_fabric("dgx1-v100:4"), first_box(8)), 12.5);
  EXPECT_DOUBLE_EQ(leaving(generate_fabric("dgx1-v100:4@50GB/s"), first_box(8)), 50);
  EXPECT_DOUBLE_EQ(leaving(generate_fabric("mi250:4"), first_box(16)), 256);
}

// Each MI250 package is two dies on four links; each DGX-1 GPU has six NVLinks, to four others.
TEST(Generate, WiresTheDirectlyJoinedBoxes) {
  const Fabric mi250 = generate_fabric("mi250:1");
  for (uint32_t package = 0; package < 8; ++package) {
    const NodeId die{2 * package};
    const auto links = mi250.out_links(die);
    EXPECT_TRUE(std::any_of(links.begin(), links.end(), [&](LinkId id) {
      return mi250.link(id).to == NodeId{2 * package + 1} &&
             mi250.link(id).bandwidth == Bandwidth::gigabytes_per_second(200);
    })) << package;
  }
  const Fabric dgx1 = generate_fabric("dgx1-v100:1");
  const auto halves = [](const std::string& name) { return name < "gpu4"; };
  EXPECT_DOUBLE_EQ(leaving(dgx1, halves), 150);
}

// Half of a fat tree's ranks can all send to the other half at full speed.
TEST(Generate, MakesTheFatTreeNonBlocking) {
  const Fabric fabric = generate_fabric("fat-tree:k=4@1GB/s");
  double from_cores = 0;
  for (const Node& node : fabric.nodes()) {
    if (node.name.starts_with("core")) from_cores += gigabytes(fabric.out_links(fabric.at(node.name)), fabric);
  }
  EXPECT_DOUBLE_EQ(from_cores, 16);
}

TEST(Generate, MakesRailSpinesAtLeastAsFastAsTheNics) {
  const Fabric fabric = generate_fabric("rail:boxes=5,gpus=2,spines=2@10GB/s");
  const auto spine = fabric.out_links(fabric.at("spine0"));
  EXPECT_DOUBLE_EQ(gigabytes(spine, fabric), 60);  // two rails of five NICs over two spines, in whole ports
}

std::set<std::pair<NodeId, NodeId>> ends_of_links(const std::string& spec) {
  std::set<std::pair<NodeId, NodeId>> ends;
  const Fabric fabric = generate_fabric(spec);
  for (const Link& link : fabric.links()) ends.emplace(link.from, link.to);
  return ends;
}

TEST(Generate, MakesTheSameGraphsByOtherNames) {
  EXPECT_EQ(ends_of_links("product:(ring:4)x(ring:3)"), ends_of_links("torus:4x3"));
  EXPECT_EQ(ends_of_links("product:(ring:4)x(ring:3)x(ring:5)"), ends_of_links("torus:4x3x5"));
  EXPECT_EQ(ends_of_links("power:(full:2)^3"), ends_of_links("hypercube:3"));
  EXPECT_EQ(ends_of_links("power:(full:4)^2"), ends_of_links("hamming:4x4"));
  EXPECT_EQ(ends_of_links("cayley:m=8,by=1+7"), ends_of_links("ring:8"));
  EXPECT_EQ(ends_of_links("cayley:m=4,k=3,by=1+3+0.1+0.2"), ends_of_links("torus:4x3"));
  EXPECT_EQ(ends_of_links("copies:(copies:(full:2)x2)x2"), ends_of_links("copies:(full:2)x4"));
  EXPECT_EQ(ends_of_links("line:(line:(diamond))"), ends_of_links("line:(diamond)^2"));
}

TEST(Generate, MakesARankOfEveryLink) {
  const Fabric diamond = generate_fabric("diamond");
  std::set<std::pair<NodeId, NodeId>> following;
  for (uint32_t a = 0; a < diamond.links().size(); ++a) {
    for (uint32_t b = 0; b < diamond.links().size(); ++b) {
      if (diamond.link(LinkId{a}).to == diamond.link(LinkId{b}).from) following.emplace(NodeId{a}, NodeId{b});
    }
  }
  EXPECT_EQ(ends_of_links("line:(diamond)"), following);
}

TEST(Generate, GivesOperandsBandwidthsOfTheirOwn) {
  const auto out_of_first = [](const std::string& spec) {
    const Fabric fabric = generate_fabric(spec);
    return gigabytes(fabric.out_links(NodeId{0}), fabric);
  };
  EXPECT_DOUBLE_EQ(out_of_first("product:(ring:4@1GB/s)x(ring:4@3GB/s)"), 8);
  EXPECT_DOUBLE_EQ(out_of_first("product:(ring:4@1GB/s)x(ring:4@3GB/s)@5GB/s"), 20);
  EXPECT_DOUBLE_EQ(out_of_first("line:(product:(full:2@1GB/s)x(full:2@3GB/s))"), 4);
  EXPECT_DOUBLE_EQ(out_of_first("copies:(full:2@1GB/s)x3"), 3);
}

TEST(Generate, DrawsRandomCapacitiesFromOneToSixteen) {
  const Fabric fabric = generate_fabric("random:n=64,links=256,seed=3");
  std::set<uint64_t> seen;
  for (const Link& link : fabric.links()) seen.insert(link.bandwidth.bytes_per_second());
  EXPECT_EQ(*seen.begin(), 1'000'000'000u);
  EXPECT_EQ(*seen.rbegin(), 16'000'000'000u);
  EXPECT_EQ(seen.size(), 16u);
  EXPECT_NE(fabric.fingerprint(), generate_fabric("random:n=64,links=256,seed=4").fingerprint());
}

// A spec in a file, a test or a report must mean the same fabric on every machine.
TEST(Generate, PinsTheRandomDraw) {
  const Fabric fabric = generate_fabric("random:n=16,links=40,seed=7");
  const auto describe = [&](uint32_t id) {
    const Link& link = fabric.link(LinkId{id});
    return fabric.name(link.from) + " " + fabric.name(link.to) + " " + link.bandwidth.to_string();
  };
  EXPECT_EQ(describe(0), "gpu0 gpu1 16 GB/s");
  EXPECT_EQ(describe(40), "gpu0 gpu7 9 GB/s");
  EXPECT_EQ(describe(78), "gpu7 gpu15 1 GB/s");
}

TEST(Generate, BuildsAThousandRanksWithTheirSymmetry) {
  const Fabric fabric = generate_fabric("dgx-h100:128");
  EXPECT_EQ(fabric.ranks().size(), 1024u);
  EXPECT_EQ(fabric.nodes().size(), 1024u + 128 + 1);
  EXPECT_EQ(generate_group(fabric.symmetries(), 1024).size(), 1024u);
}

TEST(Generate, ProvesTheSymmetryOfLargeFabricsToo) {
  const Fabric fabric = generate_fabric("ring:20000");
  EXPECT_EQ(fabric.ranks().size(), 20000u);
  EXPECT_EQ(fabric.symmetries().size(), 1u);
}

TEST(Generate, NamesWhatIsWrongWithASpec) {
  EXPECT_THAT(error_of("ring:0"), HasSubstr("fabric spec 'ring:0'"));
  EXPECT_THAT(error_of("ring:0"), HasSubstr("ranks is '0' but must be a whole number from 2 to 1000000, as in ring:8"));
  EXPECT_THAT(error_of("ring:-3"), HasSubstr("'-3'"));
  EXPECT_THAT(error_of("ring:8 "), HasSubstr("'8 '"));
  EXPECT_THAT(error_of("ring"), HasSubstr("ring needs a number of ranks, as in ring:8"));
  EXPECT_THAT(error_of("ring:99999999999999999999999"), HasSubstr("whole number"));
  EXPECT_THAT(error_of("rung:8"), HasSubstr("known are dgx-a100, dgx-h100"));
  EXPECT_THAT(error_of("torus:3xx3"), HasSubstr("sizes is ''"));
  EXPECT_THAT(error_of("torus:1x3"), HasSubstr("sizes is '1'"));
  EXPECT_THAT(error_of("torus:2x2x2x2x2x2x2"), HasSubstr("at most 6"));
  EXPECT_THAT(error_of("leaf-spine:leaves=4,hosts=4"), HasSubstr("leaf-spine needs spines="));
  EXPECT_THAT(error_of("leaf-spine:leafs=4"), HasSubstr("unknown parameter 'leafs' (leaf-spine knows leaves, hosts"));
  EXPECT_THAT(error_of("fat-tree:k=4,k=4"), HasSubstr("given twice"));
  EXPECT_THAT(error_of("fat-tree:4"), HasSubstr("'4' is not of the form name=value, as in fat-tree:k=4"));
  EXPECT_THAT(error_of("fat-tree:k=5"), HasSubstr("must be even"));
  EXPECT_THAT(error_of("fat-tree:"), HasSubstr("needs parameters (k)"));
  EXPECT_THAT(error_of("leaf-spine:leaves=2,hosts=2,spines=1,uplink=5"), HasSubstr("uplink"));
  EXPECT_THAT(error_of("ring:8@"), HasSubstr("fabric spec 'ring:8@'"));
  EXPECT_THAT(error_of("ring:8@5"), HasSubstr("fabric spec 'ring:8@5'"));
  EXPECT_THAT(error_of("ring:8@0GB/s"), HasSubstr("fabric spec"));
  EXPECT_THAT(error_of("dgx-a100:1@50GB/s"), HasSubstr("one box has no NICs"));
  EXPECT_THAT(error_of("circulant:16"), HasSubstr("one offset"));
  EXPECT_THAT(error_of("circulant:16,2,4"), HasSubstr("2 parts"));
  EXPECT_THAT(error_of("circulant:16,9"), HasSubstr("offset 9 must be at most 8"));
  EXPECT_THAT(error_of("circulant:16,3,3"), HasSubstr("twice"));
  EXPECT_THAT(error_of("kautz:n=4,d=4"), HasSubstr("d must be less than n"));
  EXPECT_THAT(error_of("bipartite:4"), HasSubstr("has 1 sides, not 2, as in bipartite:4x4"));
  EXPECT_THAT(error_of("hamming:1x4"), HasSubstr("sizes is '1'"));
  EXPECT_THAT(error_of("diamond:8"), HasSubstr("takes nothing but a bandwidth"));
  EXPECT_THAT(error_of("modified-debruijn:k=2,n=1"), HasSubstr("n must be at least 2"));
  EXPECT_THAT(error_of("cayley:m=8"), HasSubstr("cayley needs by="));
  EXPECT_THAT(error_of("cayley:m=8,by="), HasSubstr("by is ''"));
  EXPECT_THAT(error_of("cayley:m=8,by=0"), HasSubstr("joins every rank to itself"));
  EXPECT_THAT(error_of("cayley:m=8,by=1+1.0"), HasSubstr("an element twice"));
  EXPECT_THAT(error_of("cayley:m=8,by=8"), HasSubstr("by names 8.0, but numbers before the dot are below m"));
  EXPECT_THAT(error_of("cayley:m=8,k=2,by=1.2"), HasSubstr("by names 1.2"));
  EXPECT_THAT(error_of("cayley:m=8,k=3,r=3,by=1"), HasSubstr("is not 1 modulo m"));
  EXPECT_THAT(error_of("cayley:m=8,by=2"), HasSubstr("cannot"));
  EXPECT_THAT(error_of("line:ring:4"), HasSubstr("line needs a spec in brackets, as in line:(circulant:16,3,4)^2"));
  EXPECT_THAT(error_of("line:(ring:4"), HasSubstr("a bracket is not closed"));
  EXPECT_THAT(error_of("line:(ring:4)2"), HasSubstr("after the bracket stands '2', not '^' and a power"));
  EXPECT_THAT(error_of("line:(ring:4)^0"), HasSubstr("a power is '0' but must be a whole number from 1"));
  EXPECT_THAT(error_of("line:(star:4)"), HasSubstr("'star:4' has switches"));
  EXPECT_THAT(error_of("line:(rung:4)"), HasSubstr("known are"));
  EXPECT_THAT(error_of("copies:(ring:4)"), HasSubstr("not 'x' and a number of copies"));
  EXPECT_THAT(error_of("copies:(ring:4)x2(ring:3)"), HasSubstr("has 2 specs in brackets, not 1"));
  EXPECT_THAT(error_of("product:(ring:4)"), HasSubstr("needs two specs in brackets or more"));
  EXPECT_THAT(error_of("product:(ring:4)(ring:4)"), HasSubstr("needs an 'x' between brackets"));
  EXPECT_THAT(error_of("power:(ring:4)^1"), HasSubstr("a power is '1'"));
  EXPECT_THAT(error_of(std::string(20'000, '(') + "line:"), HasSubstr("known are"));
  std::string nested = "ring:4";
  for (int i = 0; i < 40; ++i) nested = "line:(" + nested + ")";
  EXPECT_THAT(error_of(nested), HasSubstr("more than 16 brackets"));
  EXPECT_THAT(error_of("random:n=4,links=2"), HasSubstr("links is '2' but must be a whole number from 3 to 6"));
  EXPECT_THAT(error_of("dragonfly:groups=9,routers=2,hosts=1,globals=1"), HasSubstr("do not reach 8 other groups"));
  EXPECT_THAT(error_of("subways:racks=3,hosts=2,ports=4,spines=1"), HasSubstr("ports is '4' but must be at most 3"));
  EXPECT_THAT(error_of("subways:racks=3,hosts=2,ports=2"), HasSubstr("subways needs spines="));
  EXPECT_THAT(error_of("shufflecast:fanout=1,columns=2"), HasSubstr("fanout is '1' but must be a whole number from 2"));
  EXPECT_THAT(error_of("shufflecast:fanout=2"), HasSubstr("shufflecast needs columns="));
  EXPECT_THAT(error_of("shufflecast:8"), HasSubstr("as in shufflecast:fanout=2,columns=2"));
  EXPECT_THAT(error_of(std::string("ring:\n\x01") + std::string(500, 'x')), Not(HasSubstr("\n")));
  EXPECT_LT(error_of("ring:" + std::string(1'000'000, '7')).size(), 400u);
}

TEST(Generate, RefusesWhatAFabricCannotHold) {
  EXPECT_THAT(error_of("dgx-h100:200000"), HasSubstr("more than the 1000000"));
  EXPECT_THAT(error_of("full:100000"), HasSubstr("9999900000 links, more than the 16000000"));
  EXPECT_THAT(error_of("torus:1000x1000x1000"), HasSubstr("1000000000 nodes"));
  EXPECT_THAT(error_of("star:1000000"), HasSubstr("1000001 nodes"));
  EXPECT_THAT(error_of("debruijn:k=1000000,n=19"), HasSubstr("links"));
  EXPECT_THAT(error_of("fat-tree:k=158"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("leaf-spine:leaves=1000000,hosts=1000000,spines=1000000"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("rail:boxes=1000000,gpus=1000000,spines=1000000"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("dragonfly:groups=1000000,routers=1000000,hosts=1000000,globals=1000000"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("kautz:n=1000000,d=999999"), HasSubstr("links"));
  EXPECT_THAT(error_of("bipartite:1000000x1000000"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("hamming:5000x2"), HasSubstr("links"));
  EXPECT_THAT(error_of("cayley:m=1000000,k=1000000,by=1"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("line:(full:300)^3"), HasSubstr("would have 26820300 links"));
  EXPECT_THAT(error_of("copies:(ring:4)x1000000"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("copies:(ring:4)x10000"), HasSubstr("links"));
  EXPECT_THAT(error_of("power:(ring:1000)^3"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("subways:racks=1000000,hosts=1000000,ports=1000000,spines=1000000"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("subways:racks=1000,hosts=900,ports=1000,spines=1"), HasSubstr("1800002000 links"));
  EXPECT_THAT(error_of("shufflecast:fanout=1000000,columns=19"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("shufflecast:fanout=2,columns=19"), HasSubstr("nodes"));
  EXPECT_THAT(error_of("random:n=20000,links=199990000"), HasSubstr("links"));
  EXPECT_THAT(error_of("random:n=4,links=4@1000TB/s"), HasSubstr("1 PB/s"));
}

TEST(Generate, ListsEveryGeneratorWithItsForm) {
  const auto help = fabric_generators();
  EXPECT_EQ(help.size(), 33u);
  for (const GeneratorHelp& line : help) {
    EXPECT_TRUE(is_fabric_spec(line.spec.substr(0, line.spec.find('[')))) << line.spec;
    EXPECT_FALSE(line.description.empty()) << line.spec;
  }
  EXPECT_TRUE(is_fabric_spec("torus"));
  EXPECT_FALSE(is_fabric_spec("fabric.json"));
  EXPECT_FALSE(is_fabric_spec("torus.json"));
  EXPECT_FALSE(is_fabric_spec("./ring:8"));
}

}  // namespace
}  // namespace banyan::fabric
