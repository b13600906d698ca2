#include "banyan/predict/collective/transfer_engine.h"

#include <deque>

#include "banyan/fabric/text.h"
#include "banyan/plan/baselines/baselines.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using Message = TransferEngine::Message;

// Keeps messages until the test says that they have left.
class Hand : public TransferEngine::Carrier {
 public:
  void carry(Message message) override { under_way.push_back(message); }
  Message take() {
    const Message message = under_way.front();
    under_way.pop_front();
    return message;
  }
  std::deque<Message> under_way;
};

// Down a path of three, in slices of 10 bytes.
TransferGraph path_graph(uint64_t bytes, const char* latency = "") {
  const std::string text = std::string("a <-> b 1GB/s; b <-> c 1GB/s ") + latency;
  const Fabric fabric = fabric::parse_fabric_text(text);
  const Schedule schedule =
      plan_baseline(plan::Baseline::ring, fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  return TransferGraph::of(schedule, {.total = Bytes(bytes), .slice = Bytes(10), .fold = false});
}

TEST(TransferEngine, LetsASliceOnWhenItHasArrivedAndOneAtATime) {
  const TransferGraph graph = path_graph(20);  // two slices on two hops
  Hand hand;
  TransferEngine engine(hand);
  const uint32_t run = engine.add(graph);
  EXPECT_TRUE(hand.under_way.empty());
  engine.begin(run);
  ASSERT_EQ(hand.under_way.size(), 1u);
  const uint32_t first = hand.under_way.front().transfer;
  engine.sent(hand.take(), Picoseconds(5));
  ASSERT_EQ(hand.under_way.size(), 2u);  // the first slice goes on, the second sets out
  EXPECT_NE(hand.under_way[0].transfer, first);
  EXPECT_EQ(hand.under_way[1].transfer, first);
  engine.sent(hand.take(), Picoseconds(6));
  EXPECT_EQ(hand.under_way.size(), 1u);  // nothing to go on with
  engine.sent(hand.take(), Picoseconds(7));
  EXPECT_TRUE(engine.take_ended().empty());
  engine.sent(hand.take(), Picoseconds(8));
  EXPECT_EQ(engine.take_ended(), std::vector{run});
  EXPECT_TRUE(engine.take_ended().empty());
  EXPECT_EQ(engine.messages_done(), 4u);
  EXPECT_EQ(engine.next(), FluidNetwork::kNever);
}

TEST(TransferEngine, WaitsForTheLatencyOfLinks) {
  const TransferGraph graph = path_graph(10, "3us");
  Hand hand;
  TransferEngine engine(hand);
  engine.begin(engine.add(graph));
  engine.sent(hand.take(), Picoseconds(0));  // the first hop has none
  engine.sent(hand.take(), Picoseconds(7));
  EXPECT_TRUE(engine.take_ended().empty());
  EXPECT_EQ(engine.next(), Picoseconds(7) + std::chrono::microseconds(3));
  engine.advance(engine.next());
  EXPECT_EQ(engine.take_ended().size(), 1u);
}

TEST(TransferEngine, KeepsRunsApartAndUsesTheirNumbersAgain) {
  const TransferGraph graph = path_graph(10), late = path_graph(10, "3us");
  Hand hand;
  TransferEngine engine(hand);
  const uint32_t one = engine.add(graph), other = engine.add(late);
  EXPECT_NE(one, other);
  engine.begin(one);
  engine.begin(other);
  ASSERT_EQ(hand.under_way.size(), 2u);
  EXPECT_EQ(hand.under_way[0].run, one);
  EXPECT_EQ(hand.under_way[1].run, other);
  for (int i = 0; i < 3; ++i) engine.sent(hand.take(), Picoseconds(1));  // first hops of both, last of one
  EXPECT_EQ(engine.take_ended(), std::vector{one});
  engine.sent(hand.take(), Picoseconds(2));
  EXPECT_LT(engine.next(), FluidNetwork::kNever);
  engine.stop(other);
  EXPECT_EQ(engine.next(), FluidNetwork::kNever);  // what was on its last way is forgotten
  EXPECT_TRUE(engine.take_ended().empty());
  EXPECT_EQ(engine.add(graph) + engine.add(graph), one + other);
}

}  // namespace
}  // namespace banyan::predict
