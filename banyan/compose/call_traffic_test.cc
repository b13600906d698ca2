// What calls move over links.

#include "banyan/base/file.h"
#include "banyan/compose/planner.h"
#include "banyan/compose/test_layouts.h"
#include "banyan/fabric/cables.h"
#include "banyan/fabric/generate.h"
#include "banyan/fabric/read.h"
#include "banyan/testing/test.h"

namespace banyan::compose {
namespace {

using OnLinks = std::map<std::string, double>;  // "a->sw"

OnLinks on_links(const std::string& fabric, run::PlanSource& planner, const run::Call& call) {
  const Fabric cluster = fabric::load_fabric({.fabric = fabric});
  OnLinks found;
  int64_t last = -1;
  for (const auto& [number, bytes] : planner.bytes_on_links(call)) {
    EXPECT_GT(int64_t{number}, last) << "not in order";
    last = number;
    if (number >= cluster.links().size()) {
      ADD_FAILURE() << "link " << number << " is none of the cluster";
      continue;
    }
    const Link& link = cluster.link(LinkId{number});
    found[cluster.name(link.from) + "->" + cluster.name(link.to)] = bytes;
  }
  return found;
}

run::Call call_of(run::OperationKind kind, uint64_t count, uint32_t other = 0) {
  return {.kind = kind, .type = element::DataType::float32, .other = other, .count = count};
}

TEST(LinkBytes, OfAnAllreduceAreThoseOfItsPlan) {
  constexpr uint64_t kElements = uint64_t{1} << 28;
  constexpr double kBytes = 4.0 * kElements, kBandwidth = 25e6;
  const run::Call call = call_of(run::OperationKind::all_reduce, kElements);
  const std::vector<std::string> names{"gpu0", "gpu1", "gpu2", "gpu3"};
  for (const std::vector<uint32_t>& hosts : {std::vector<uint32_t>{0, 1, 2, 3}, {0, 1, 2, 3, 3, 2, 1, 0}}) {
    auto planner = make_planner({.fabric = kLeafSpine}, on_nodes(names, hosts));
    const OnLinks links = on_links(kLeafSpine, *planner, call);
    double busiest = 0;
    for (const auto& [link, bytes] : links) busiest = std::max(busiest, bytes);
    const auto answer = planner->plan({.kind = CollectiveKind::all_reduce, .total = Bytes(4 * kElements)});
    EXPECT_NEAR(busiest / kBandwidth / answer.busy_seconds, 1, 1e-9);
    // 3/4 of the bytes each way to reduce, and as much to spread: the bound, which the plan reaches.
    for (const char* link :
         {"gpu0->leaf0", "gpu1->leaf0", "gpu2->leaf1", "gpu3->leaf1", "leaf0->gpu0", "leaf1->gpu3"}) {
      ASSERT_TRUE(links.contains(link)) << link;
      EXPECT_GE(links.at(link), 1.5 * kBytes * (1 - 1e-9)) << link;
    }
    // Each half of the hosts must hear of the sum of the other half.
    for (const char* leaf : {"leaf0", "leaf1"}) {
      const std::string name = leaf;
      double bytes = 0;
      for (const char* spine : {"->spine0", "->spine1"}) {
        if (const auto link = links.find(name + spine); link != links.end()) bytes += link->second;
      }
      EXPECT_GE(bytes, kBytes * (1 - 1e-9)) << leaf;
    }
    const auto another = make_planner({.fabric = kLeafSpine}, on_nodes(names, hosts));
    EXPECT_EQ(on_links(kLeafSpine, *another, call), links) << "of another communicator on the same hosts";
  }
}

TEST(LinkBytes, OfCallsWithoutAPlanGoStraight) {
  using Kind = run::OperationKind;
  auto planner = make_planner({.fabric = kStar}, on_nodes({"a", "b", "c"}, {0, 1, 2, 0}));
  const auto links = [&](Kind kind, uint32_t other = 0) { return on_links(kStar, *planner, call_of(kind, 10, other)); };
  // Two ranks on a, which send 40 bytes to each of two others, and what is between them does not leave it.
  EXPECT_EQ(links(Kind::all_to_all),
            (OnLinks{{"a->sw", 160}, {"b->sw", 120}, {"c->sw", 120}, {"sw->a", 160}, {"sw->b", 120}, {"sw->c", 120}}));
  EXPECT_EQ(links(Kind::gather, 3), (OnLinks{{"b->sw", 40}, {"c->sw", 40}, {"sw->a", 80}}));
  EXPECT_EQ(links(Kind::scatter, 1), (OnLinks{{"b->sw", 120}, {"sw->a", 80}, {"sw->c", 40}}));
  EXPECT_EQ(links(Kind::send, 1), (OnLinks{{"a->sw", 40}, {"sw->b", 40}}));
  EXPECT_EQ(links(Kind::recv, 2), (OnLinks{{"c->sw", 40}, {"sw->a", 40}}));
  EXPECT_EQ(links(Kind::recv, run::kAnyRank), OnLinks());
  EXPECT_EQ(links(Kind::send, 3), OnLinks()) << "on the same host";
  EXPECT_EQ(links(Kind::barrier), OnLinks());
  for (const Kind kind : {Kind::all_reduce, Kind::all_to_all, Kind::gather, Kind::send}) {
    EXPECT_EQ(on_links(kStar, *planner, call_of(kind, 0, 1)), OnLinks());
  }
}

TEST(LinkBytes, OfBlocksAreThoseThatTheCallHas) {
  auto planner = make_planner({.fabric = kStar}, on_nodes({"a", "b", "c"}, {0, 1, 2}, 1));
  const std::vector<size_t> sent{100, 7, 10}, received{1, 7, 2}, gathered{100, 0, 0};
  // Rank 0 gets 100 from each, rank 2 gets 10 from each; rank 1 gets what it says.
  EXPECT_EQ(on_links(kStar, *planner,
                     {.kind = run::OperationKind::all_to_all_v, .send_counts = sent, .recv_counts = received}),
            (OnLinks{{"a->sw", 11}, {"b->sw", 110}, {"c->sw", 102}, {"sw->a", 200}, {"sw->b", 3}, {"sw->c", 20}}));
  const OnLinks spread = on_links(kStar, *planner, {.kind = run::OperationKind::all_gather_v, .recv_counts = gathered});
  EXPECT_FALSE(spread.contains("sw->a")) << "the others have nothing";
  EXPECT_NEAR(spread.at("sw->b"), 100, 1e-9);
  EXPECT_NEAR(spread.at("sw->c"), 100, 1e-9);
  const OnLinks reduced =
      on_links(kStar, *planner, {.kind = run::OperationKind::reduce_scatter_v, .send_counts = gathered});
  EXPECT_FALSE(reduced.contains("a->sw")) << "it keeps its part";
  EXPECT_NEAR(reduced.at("b->sw"), 100, 1e-9);
}

TEST(LinkBytes, AreSpreadOverEqualWaysAndKeepAwayFromLostCables) {
  auto planner = make_planner({.fabric = kLeafSpine}, on_nodes({"gpu0", "gpu2"}, {0, 1, 1}));
  const run::Call send = call_of(run::OperationKind::send, 25, 1);
  EXPECT_EQ(on_links(kLeafSpine, *planner, send), (OnLinks{{"gpu0->leaf0", 100},
                                                           {"leaf0->spine0", 50},
                                                           {"leaf0->spine1", 50},
                                                           {"spine0->leaf1", 50},
                                                           {"spine1->leaf1", 50},
                                                           {"leaf1->gpu2", 100}}));
  const Fabric cluster = fabric::generate_fabric(kLeafSpine);
  const fabric::Cables cables(cluster);
  const uint32_t lost = cables.of(LinkId{8});
  ASSERT_EQ(planner->cable_name(lost), "leaf0-spine0");
  planner = planner->revised({.generation = 1, .lost_cables = {lost}});
  EXPECT_EQ(on_links(kLeafSpine, *planner, send),
            (OnLinks{{"gpu0->leaf0", 100}, {"leaf0->spine1", 100}, {"spine1->leaf1", 100}, {"leaf1->gpu2", 100}}));
  const OnLinks reduced = on_links(kLeafSpine, *planner, call_of(run::OperationKind::all_reduce, 1 << 28));
  for (const char* link : {"leaf0->spine0", "spine0->leaf0"}) EXPECT_FALSE(reduced.contains(link)) << link;
  EXPECT_GT(reduced.at("leaf0->spine1"), 0);
  EXPECT_GT(reduced.at("gpu0->leaf0"), 0);
}

TEST(LinkBytes, GoThroughHostsWhereNoSwitchLeads) {
  const std::string line = "a <-> b 1GB/s; b <-> c 1GB/s";
  auto planner = make_planner({.fabric = line}, on_nodes({"a", "c"}, {0, 1}));
  EXPECT_EQ(on_links(line, *planner, call_of(run::OperationKind::send, 1, 1)), (OnLinks{{"a->b", 4}, {"b->c", 4}}));
}

TEST(LinkBytes, OfPlannedAllToAllsAreThoseOfTheirPaths) {
  const std::string line = "a <-> b 1GB/s; b <-> c 1GB/s; c <-> d 1GB/s";
  auto planner = make_planner({.fabric = line}, on_nodes({"a", "b", "c", "d"}, {0, 1, 2, 3}, 1));
  EXPECT_EQ(on_links(line, *planner, call_of(run::OperationKind::all_to_all, 10)),
            (OnLinks{{"a->b", 120}, {"b->c", 160}, {"c->d", 120}, {"d->c", 120}, {"c->b", 160}, {"b->a", 120}}));
  // What others send each other is taken to be what rank 1 sends them.
  const std::vector<size_t> sent{100, 0, 10, 1}, received{5, 0, 0, 2};
  EXPECT_EQ(on_links(line, *planner,
                     {.kind = run::OperationKind::all_to_all_v, .send_counts = sent, .recv_counts = received}),
            (OnLinks{{"a->b", 5 + 10 + 1},
                     {"b->c", 10 + 1 + 10 + 1},
                     {"c->d", 3},
                     {"d->c", 100 + 2 + 10},
                     {"c->b", 2 + 100 + 100},
                     {"b->a", 300}}));
}

TEST(LinkBytes, OfProcessesAreThoseOfTheirFabric) {
  auto planner = make_planner({.fabric = "a <-> sw 1GB/s; b <-> sw 1GB/s"}, on_hosts({0, 1}));
  const auto links = planner->bytes_on_links(call_of(run::OperationKind::all_gather, 25));
  ASSERT_EQ(links.size(), 4u);
  for (const auto& [link, bytes] : links) EXPECT_NEAR(bytes, 100, 1e-9) << link;
}

}  // namespace
}  // namespace banyan::compose
