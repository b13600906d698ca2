// Follows packets through the planned tables, as the kernels of the hosts would.
#include "lab/lab_plan.h"

#include "banyan/fabric/generate.h"
#include "banyan/fabric/read.h"
#include "banyan/testing/test.h"

namespace banyan::lab {
namespace {

struct Packet {
  std::string from, to;
};

class World {
 public:
  explicit World(const LabPlan& plan, const std::set<uint32_t>& cut = {}) : plan_(plan), routes_(plan.routes(cut)) {
    for (const Host& host : plan.hosts()) {
      own(host.primary, host.node, std::nullopt);
      for (const Port& port : host.ports) {
        own(port.address, host.node, port.cable);
        for (const Address& other : port.others) own(other, host.node, port.cable);
      }
    }
  }

  // The cables that it crosses; nothing when a host does not know where to send it, or it goes round in circles.
  std::optional<std::vector<uint32_t>> walk(NodeId from, const Packet& packet) const {
    std::vector<uint32_t> crossed;
    NodeId at = from;
    for (size_t hops = 0; hops <= plan_.hosts().size(); ++hops) {
      if (owners_.at(packet.to).node == at) return crossed;
      const std::optional<uint32_t> cable = next_cable(at, packet, at == from);
      if (!cable) return std::nullopt;
      crossed.push_back(*cable);
      at = plan_.cables()[*cable].other_end(at);
    }
    return std::nullopt;
  }

  size_t addresses() const { return owners_.size(); }

 private:
  struct Owner {
    NodeId node{};
    std::optional<uint32_t> cable;
  };

  void own(Address address, NodeId node, std::optional<uint32_t> cable) {
    EXPECT_TRUE(owners_.emplace(address.to_string(), Owner{node, cable}).second) << address.to_string() << " twice";
  }

  std::optional<uint32_t> next_cable(NodeId at, const Packet& packet, bool is_sender) const {
    // The rule for what comes from an address of a cable.
    if (const auto from = owners_.find(packet.from); is_sender && from != owners_.end() && from->second.cable) {
      return from->second.cable;
    }
    for (const RouteEntry& entry : routes_[index(at)]) {
      if (entry.to.to_string() != packet.to) continue;
      if (!entry.cable) return std::nullopt;
      const fabric::Cable& cable = plan_.cables()[*entry.cable];
      EXPECT_TRUE(cable.a == at || cable.b == at);
      EXPECT_EQ(owners_.at(entry.via->to_string()).node, cable.other_end(at)) << "the next host is not there";
      return entry.cable;
    }
    for (const Port& port : plan_.host(at).ports) {
      if (port.peer.to_string() == packet.to) return port.cable;
    }
    return std::nullopt;
  }

  const LabPlan& plan_;
  std::vector<std::vector<RouteEntry>> routes_;
  std::map<std::string, Owner> owners_;
};

constexpr const char* kFabrics[] = {
    "star:4",
    "ring:8",
    "torus:4x4",
    "torus:3x3x2",
    "leaf-spine:leaves=4,hosts=4,spines=3",
    "fat-tree:k=4",
    "dgx-a100:2",
    "kautz:n=6,d=2",
    "a <-> sw 1GB/s; a <-> sw 1GB/s; b <-> sw 1GB/s; c <-> sw 1GB/s; c <-> b 2GB/s",
};

class EveryFabric : public ::testing::TestWithParam<const char*> {
 protected:
  const Fabric fabric = fabric::load_fabric({.fabric = GetParam()});
  const LabPlan plan{fabric};
};

TEST_P(EveryFabric, PrimaryAddressesReachEachOtherByTheFewestHops) {
  const World world(plan);
  for (const NodeId from : fabric.ranks()) {
    for (const NodeId to : fabric.ranks()) {
      if (from == to) continue;
      const auto crossed =
          world.walk(from, {.from = plan.host(from).primary.to_string(), .to = plan.host(to).primary.to_string()});
      ASSERT_TRUE(crossed) << fabric.name(from) << " to " << fabric.name(to);
    }
  }
}

TEST_P(EveryFabric, RoutesOfTheBookAreTakenInBothDirections) {
  const World world(plan);
  const fabric::RouteBook book = plan.route_book();
  size_t found = 0;
  // Every simple path between two ranks through at most three switches.
  for (const NodeId from : fabric.ranks()) {
    std::vector<std::pair<NodeId, std::vector<uint32_t>>> paths{{from, {}}};
    for (size_t next = 0; next < paths.size(); ++next) {
      const auto [at, cables] = paths[next];
      if (at != from && fabric.is_rank(at)) {
        const auto addresses = book.find({.from = from, .to = at, .cables = cables});
        if (!addresses) continue;
        ++found;
        EXPECT_EQ(world.walk(from, {.from = addresses->from, .to = addresses->to}), cables);
        EXPECT_EQ(world.walk(at, {.from = addresses->to, .to = addresses->from}),
                  std::vector<uint32_t>(cables.rbegin(), cables.rend()));
        continue;
      }
      if (cables.size() == 6) continue;
      for (uint32_t cable = 0; cable < plan.cables().all().size(); ++cable) {
        const fabric::Cable& each = plan.cables()[cable];
        if ((each.a != at && each.b != at) || std::count(cables.begin(), cables.end(), cable) > 0) continue;
        if (each.other_end(at) == from) continue;
        std::vector<uint32_t> longer = cables;
        longer.push_back(cable);
        paths.emplace_back(each.other_end(at), std::move(longer));
      }
      if (paths.size() > 200'000) GTEST_FAIL() << "too many paths to try";
    }
  }
  EXPECT_EQ(found, 2 * book.size());
  EXPECT_GT(book.size(), 0u);
}

INSTANTIATE_TEST_SUITE_P(LabPlan, EveryFabric, ::testing::ValuesIn(kFabrics));

TEST(LabPlan, AddressesChooseEverySpine) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=2,hosts=2,spines=3");
  const fabric::RouteBook book = LabPlan(fabric).route_book();
  // Two pairs on a leaf, and four pairs across, each by three spines.
  EXPECT_EQ(book.size(), 2u + 4u * 3u);
  const Fabric tree = fabric::generate_fabric("fat-tree:k=4");
  // Within an edge 8 pairs; within a pod, 4 pods of 4 pairs by 2 ways; across, 96 pairs by 4 ways.
  EXPECT_EQ(LabPlan(tree).route_book().size(), 8u + 4u * 4u * 2u + 96u * 4u);
}

TEST(LabPlan, FindsAnotherWayRoundACutCable) {
  const Fabric fabric = fabric::generate_fabric("ring:5");
  const LabPlan plan(fabric);
  const Packet packet{.from = plan.hosts()[0].primary.to_string(), .to = plan.hosts()[1].primary.to_string()};
  EXPECT_EQ(World(plan).walk(NodeId{0}, packet)->size(), 1u);
  const uint32_t cable = World(plan).walk(NodeId{0}, packet)->front();
  EXPECT_EQ(World(plan, {cable}).walk(NodeId{0}, packet)->size(), 4u);
  std::set<uint32_t> all;
  for (const Port& port : plan.hosts()[1].ports) all.insert(port.cable);
  EXPECT_EQ(World(plan, all).walk(NodeId{0}, packet), std::nullopt);
}

TEST(LabPlan, GivesTheMissingDirectionOfACableALittle) {
  const Fabric fabric = fabric::load_fabric({.fabric = "a -> b 1GB/s; b -> c 1GB/s; c -> a 1GB/s"});
  const LabPlan plan(fabric);
  const fabric::Cable& cable = plan.cables()[0];
  const auto rate = [&](NodeId node) {
    for (const Port& port : plan.host(node).ports) {
      if (port.cable == 0) return port.bytes_per_second;
    }
    return uint64_t{0};
  };
  const NodeId sender = cable.forth ? cable.a : cable.b;
  EXPECT_EQ(rate(sender), 1'000'000'000u);
  EXPECT_EQ(rate(cable.other_end(sender)), 10'000'000u);
}

TEST(LabPlan, Scales) {
  const Fabric fabric = fabric::load_fabric({.fabric = "a <-> b 400Gb/s; b -> a 100B/s"});
  const Fabric small = scaled(fabric, 1, 1000);
  EXPECT_EQ(small.links()[0].bandwidth.bytes_per_second(), 50'000'000u);
  EXPECT_EQ(small.links()[2].bandwidth.bytes_per_second(), 1000u);
  EXPECT_THROW(scaled(fabric, 1'000'000'000, 1), Error);
  EXPECT_THROW(LabPlan(fabric::generate_fabric("star:2000")), Error);
}

}  // namespace
}  // namespace banyan::lab
