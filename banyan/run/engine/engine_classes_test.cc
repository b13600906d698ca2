// Executions of different urgency on one engine: classes, budgets of steps, gates on slices.

#include "banyan/run/engine/engine.h"
#include "banyan/run/engine/test_fleet.h"
#include "banyan/run/engine/traffic_class.h"
#include "banyan/testing/simulated_transport.h"
#include "banyan/testing/test.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {
namespace {

using ::testing::Le;

// Lets slices through as it is told, and writes down which.
class ScriptedGate : public SliceGate {
 public:
  bool admit(const SliceOffer& offer) override {
    ++asked;
    if (is_shut) return false;
    admitted.push_back(offer.traffic_class);
    return true;
  }
  size_t slices_of(uint32_t traffic_class) const {
    return static_cast<size_t>(std::count(admitted.begin(), admitted.end(), traffic_class));
  }

  bool is_shut = false;
  size_t asked = 0;
  std::vector<uint32_t> admitted;  // classes of slices, in their order
};

// Rank 0 broadcasts buffers to rank 1, each in a class of its own, over lanes that take everything at once.
class TwoRanks {
 public:
  static constexpr size_t kSlice = 100, kElements = 20'000;

  explicit TwoRanks(std::vector<TrafficClass> classes)
      : world_({.least_capacity = 1 << 20,
                .most_capacity = 1 << 20,
                .lanes = static_cast<uint32_t>(classes.size()),
                .is_smooth = true}) {
    const auto channel = [this](const LaneUse& use) { return world_.channel(use.peer, use.traffic_class); };
    sender = std::make_unique<Engine>(
        world_.transport(0),
        EngineOptions{.slice_bytes = kSlice, .channel = channel, .classes = classes, .gate = &gate});
    receiver = std::make_unique<Engine>(world_.transport(1),
                                        EngineOptions{.slice_bytes = kSlice, .channel = channel, .classes = classes});
  }

  // The bytes of a buffer depend on its class and on the position. The sender has no copies to make: it is in place.
  void start(uint32_t traffic_class) {
    std::vector<std::byte>& from = *inputs_.emplace_back(std::make_unique<std::vector<std::byte>>(kElements));
    std::vector<std::byte>& to = *outputs_.emplace_back(std::make_unique<std::vector<std::byte>>(kElements));
    for (size_t i = 0; i < kElements; ++i) from[i] = static_cast<std::byte>(i * 7 + i / 256 + traffic_class);
    const Schedule schedule = testing::sample_forest(
        {.kind = CollectiveKind::broadcast, .ranks = 2, .trees_per_root = 1, .shape = testing::TreeShape::star});
    for (const uint32_t rank : {0u, 1u}) {
      (rank == 0 ? *sender : *receiver)
          .start({.plan = std::make_shared<RankPlan>(make_rank_plan(schedule, kElements, rank)),
                  .task = {.type = element::DataType::uint8},
                  .sequence = inputs_.size(),
                  .input = rank == 0 ? std::span<const std::byte>(from) : std::span<const std::byte>(),
                  .output = rank == 0 ? from : to,
                  .traffic_class = traffic_class});
    }
  }

  // The bytes that the sender moves in one step: it receives none.
  size_t step(size_t budget) {
    const uint64_t before = world_.bytes_written(0);
    sender->progress(budget);
    while (world_.deliver_some() || receiver->progress()) continue;
    return world_.bytes_written(0) - before;
  }
  bool is_over() const { return sender->is_idle() && receiver->is_idle(); }
  bool is_right() const {
    return std::equal(inputs_.begin(), inputs_.end(), outputs_.begin(), outputs_.end(),
                      [](const auto& from, const auto& to) { return *from == *to; });
  }

  ScriptedGate gate;
  std::unique_ptr<Engine> sender, receiver;

 private:
  testing::SimulatedWorld world_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> inputs_, outputs_;
};

TEST(EngineClasses, ShareTheBytesOfStepsByTheirWeights) {
  TwoRanks ranks({{.weight = 1}, {.weight = 3}, {.weight = 2}});
  for (const uint32_t traffic_class : {0u, 1u, 2u}) ranks.start(traffic_class);
  for (size_t step = 0; ranks.gate.admitted.size() < 240; ++step) {
    ASSERT_LT(step, 10'000u);
    ranks.step(130);
  }
  // A class may be a turn ahead of the others, which is as many slices as its weight says.
  EXPECT_NEAR(static_cast<double>(ranks.gate.slices_of(0)), 40, 3);
  EXPECT_NEAR(static_cast<double>(ranks.gate.slices_of(1)), 120, 6);
  EXPECT_NEAR(static_cast<double>(ranks.gate.slices_of(2)), 80, 5);
  while (!ranks.is_over()) ranks.step(130);
  EXPECT_TRUE(ranks.is_right());
}

TEST(EngineClasses, ShareByWeightWithoutABudgetToo) {
  TwoRanks ranks({{.weight = 1}, {.weight = 4}});
  for (const uint32_t traffic_class : {0u, 1u}) ranks.start(traffic_class);
  while (ranks.gate.admitted.size() < 100) ranks.step(Engine::kNoBudget);
  EXPECT_NEAR(static_cast<double>(ranks.gate.slices_of(1)), 80, 6);
}

TEST(EngineClasses, LeaveAllToOneThatHasThemForItself) {
  TwoRanks ranks({{.weight = 1}, {.weight = 100}});
  ranks.start(0);
  while (!ranks.is_over()) ASSERT_GT(ranks.step(Engine::kNoBudget), 0u);
  EXPECT_TRUE(ranks.is_right());
}

TEST(EngineClasses, GoFirstWhenTheirPriorityIsHigher) {
  TwoRanks ranks({{.priority = 0}, {.priority = 7}});
  ranks.start(0);
  for (int i = 0; i < 10; ++i) ranks.step(150);
  const size_t before = ranks.gate.admitted.size();
  EXPECT_THAT(ranks.gate.admitted, Each(0u));
  ranks.start(1);
  while (ranks.gate.slices_of(1) < TwoRanks::kElements / TwoRanks::kSlice) {
    ASSERT_LE(ranks.gate.slices_of(0), before) << "the lower priority has overtaken";
    ranks.step(150);
  }
  while (!ranks.is_over()) ranks.step(150);
  EXPECT_TRUE(ranks.is_right());
}

TEST(EngineClasses, KeepTheOrderOfStartsWithinOneClass) {
  TwoRanks ranks({{.priority = 0}, {.priority = 1}});
  for (const uint32_t traffic_class : {0u, 1u, 0u}) ranks.start(traffic_class);
  while (!ranks.is_over()) {
    ranks.step(500);
    const std::vector<Engine::Waiting> waiting = ranks.sender->waiting_for();
    const bool first_is_open = !waiting.empty() && waiting.front().sequence == 1;
    for (const Engine::Waiting& each : waiting) {
      if (each.sequence != 3 || !first_is_open) continue;
      ASSERT_EQ(each.bytes_done, 0u) << "it has overtaken the first";
    }
  }
  EXPECT_TRUE(ranks.is_right());
}

TEST(EngineBudget, BoundsTheBytesOfEveryStep) {
  for (const size_t budget : {1u, 7u, 24u, 100u, 333u}) {
    TwoRanks ranks({{}, {.weight = 2}, {.priority = 1}});
    for (const uint32_t traffic_class : {0u, 1u, 2u, 1u}) ranks.start(traffic_class);
    std::vector<size_t> moved;
    while (!ranks.is_over()) {
      moved.push_back(ranks.step(budget));
      ASSERT_LT(moved.size(), 200'000u);
    }
    EXPECT_THAT(moved, Each(Le(budget)));
    EXPECT_TRUE(ranks.is_right()) << budget;
  }
}

TEST(EngineGate, HoldsSlicesForAsLongAsItIsShut) {
  TwoRanks ranks(std::vector<TrafficClass>(1));
  ranks.gate.is_shut = true;
  ranks.start(0);
  for (int i = 0; i < 50; ++i) EXPECT_EQ(ranks.step(Engine::kNoBudget), 0u);
  EXPECT_EQ(ranks.gate.asked, 50u);
  ranks.gate.is_shut = false;
  for (int i = 0; i < 3; ++i) EXPECT_GT(ranks.step(Engine::kNoBudget), 0u);
  ranks.gate.is_shut = true;
  const size_t admitted = ranks.gate.admitted.size();
  for (int i = 0; i < 50; ++i) ranks.step(Engine::kNoBudget);
  EXPECT_EQ(ranks.gate.admitted.size(), admitted);
  ranks.gate.is_shut = false;
  while (!ranks.is_over()) ranks.step(Engine::kNoBudget);
  EXPECT_EQ(ranks.gate.admitted.size(), TwoRanks::kElements / TwoRanks::kSlice);
  EXPECT_TRUE(ranks.is_right());
}

// Refuses slices at random.
class RandomGate : public SliceGate {
 public:
  explicit RandomGate(uint64_t seed) : random_(seed) {}
  bool admit(const SliceOffer&) override { return random_() % 3 > 0; }

 private:
  std::mt19937_64 random_;
};

TEST(EngineClasses, AreRightAndNeverStuckInAnyWorldWithAnyBudgetAndGate) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    const uint32_t ranks = 2 + static_cast<uint32_t>(below(4));
    RandomGate gate(seed);
    EngineOptions options{.slice_bytes = 1 + below(200), .window = 1 + static_cast<uint32_t>(below(4)), .gate = &gate};
    options.classes.clear();
    for (uint64_t i = 0; i <= seed % 3; ++i) {
      options.classes.push_back(
          {.priority = static_cast<uint32_t>(below(2)), .weight = 1 + static_cast<uint32_t>(below(5))});
    }
    const auto classes = static_cast<uint32_t>(options.classes.size());
    std::vector<TestOperation> operations;
    for (uint64_t i = 0; i < 3; ++i) {
      operations.push_back(TestOperation({.kind = kTestKinds[below(kTestKinds.size())],
                                          .ranks = ranks,
                                          .type = static_cast<element::DataType>(below(element::kDataTypes)),
                                          .in_place = below(2) == 0,
                                          .elements = 1 + below(below(2) == 0 ? 12 : 150),
                                          .root = static_cast<uint32_t>(below(ranks)),
                                          .is_confirmed = below(3) == 0,
                                          .traffic_class = static_cast<uint32_t>(below(classes)),
                                          .seed = seed * 100 + i}));
    }
    Fleet fleet(ranks, options,
                {.ranks = ranks,
                 .most_capacity = below(2) == 0 ? size_t{8} : size_t{600},
                 .seed = seed,
                 .lanes = classes * (1 + static_cast<uint32_t>(below(2)))});
    if (below(2) == 0) fleet.step_budget = 1 + below(300);
    ASSERT_TRUE(fleet.run(operations)) << "seed " << seed << " is stuck" << fleet.waiting();
    for (const TestOperation& operation : operations) {
      ASSERT_EQ(operation.wrong_elements(), 0u) << "seed " << seed << ": " << operation.words();
    }
    ASSERT_TRUE(fleet.world().is_quiet()) << "seed " << seed;
  }
}

}  // namespace
}  // namespace banyan::run
