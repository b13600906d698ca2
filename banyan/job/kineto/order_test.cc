#include "banyan/job/kineto/order.h"

#include "banyan/testing/test.h"

namespace banyan::job::kineto {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

// The rule, node by node, with a look at all nodes for each.
NodeOrder order_slowly(NodeGraph& graph) {
  NodeOrder out;
  const size_t count = graph.times.size();
  std::vector<bool> done(count), freed(count);
  const auto earlier = [&](uint32_t a, uint32_t b) {
    return b == kNone || std::pair(graph.times[a], a) < std::pair(graph.times[b], b);
  };
  while (out.nodes.size() < count) {
    uint32_t next = kNone, hangs = kNone;
    for (uint32_t i = 0; i < count; ++i) {
      if (done[i] || (graph.before[i] != kNone && !done[graph.before[i]])) continue;
      bool ready = true;
      for (const auto& [node, needed] : graph.needs) ready = ready && (node != i || needed == kNone || done[needed]);
      if (ready && earlier(i, next)) next = i;
      if (earlier(i, hangs)) hangs = i;
    }
    if (next == kNone) {
      next = hangs;
      out.broken.push_back(next);
      for (auto& [node, needed] : graph.needs) {
        if (node != next || needed == kNone || done[needed]) continue;
        needed = kNone;
        ++out.dropped;
      }
    }
    done[next] = true;
    out.nodes.push_back(next);
  }
  return out;
}

TEST(KinetoOrder, IsThatOfTheRuleOnRandomGraphsWithAndWithoutCycles) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 engine(seed);
    const auto random = [&] { return static_cast<uint32_t>(engine()); };
    const uint32_t count = 1 + random() % 40, streams = 1 + random() % 4;
    NodeGraph graph;
    std::vector<uint32_t> last(streams, kNone);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t stream = random() % (streams + 1);
      graph.times.push_back(random() % 20);
      graph.before.push_back(stream == streams ? kNone : std::exchange(last[stream], i));
    }
    // Of half of the graphs, nodes need earlier ones only: no cycle.
    for (uint32_t k = random() % (2 * count); k > 0; --k) {
      const uint32_t node = random() % count, needed = seed % 2 == 0 ? random() % count : random() % (node + 1);
      if (node != needed) graph.needs.emplace_back(node, needed);
    }
    NodeGraph copy = graph;
    const NodeOrder fast = order_nodes(graph), slow = order_slowly(copy);
    EXPECT_EQ(fast.nodes, slow.nodes);
    EXPECT_EQ(fast.broken, slow.broken);
    EXPECT_EQ(fast.dropped, slow.dropped);
    EXPECT_EQ(std::multiset(graph.needs.begin(), graph.needs.end()),
              std::multiset(copy.needs.begin(), copy.needs.end()));
    EXPECT_TRUE(seed % 2 == 0 || fast.dropped == 0);
  }
}

TEST(KinetoOrder, ManyCyclesTakeNoLongerThanManyNodes) {
  // Pairs that need each other: every one is a cycle of its own. Looking at all nodes for each would take an hour.
  constexpr uint32_t kPairs = 200'000;
  NodeGraph graph;
  for (uint32_t i = 0; i < 2 * kPairs; ++i) {
    graph.times.push_back(i);
    graph.before.push_back(kNone);
    graph.needs.emplace_back(i, i ^ 1);
  }
  const NodeOrder order = order_nodes(graph);
  EXPECT_EQ(order.dropped, kPairs);
  for (uint32_t i = 0; i < 2 * kPairs; ++i) EXPECT_EQ(order.nodes[i], i);
}

}  // namespace
}  // namespace banyan::job::kineto
