// Budgets of steps, and gates on slices.

#include "banyan/run/engine/engine.h"
#include "banyan/run/engine/test_fleet.h"
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
    admitted.push_back(offer.sequence);
    return true;
  }

  bool is_shut = false;
  size_t asked = 0;
  std::vector<uint64_t> admitted;  // executions of slices, in their order
};

// Rank 0 broadcasts buffers to all others, over lanes that take everything at once.
class Broadcasts {
 public:
  static constexpr size_t kSlice = 100, kElements = 20'000;

  explicit Broadcasts(uint32_t receivers)
      : world_({.ranks = receivers + 1, .least_capacity = 1 << 20, .most_capacity = 1 << 20, .is_smooth = true}) {
    for (uint32_t rank = 0; rank <= receivers; ++rank) {
      engines_.push_back(std::make_unique<Engine>(
          world_.transport(rank), EngineOptions{.slice_bytes = kSlice, .gate = rank == 0 ? &gate : nullptr}));
    }
  }

  // The bytes of a buffer depend on its number and on the position. The sender has no copies to make: it is in place.
  void start() {
    std::vector<std::unique_ptr<std::vector<std::byte>>>& buffers = buffers_.emplace_back();
    const size_t number = buffers_.size();
    const auto ranks = static_cast<uint32_t>(engines_.size());
    const Schedule schedule = testing::sample_forest(
        {.kind = CollectiveKind::broadcast, .ranks = ranks, .trees_per_root = 1, .shape = testing::TreeShape::star});
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      std::vector<std::byte>& buffer = *buffers.emplace_back(std::make_unique<std::vector<std::byte>>(kElements));
      for (size_t i = 0; i < kElements && rank == 0; ++i) buffer[i] = static_cast<std::byte>(i * 7 + i / 256 + number);
      engines_[rank]->start({.plan = std::make_shared<RankPlan>(make_rank_plan(schedule, kElements, rank)),
                             .task = {.type = element::DataType::uint8},
                             .sequence = number,
                             .input = rank == 0 ? std::span<const std::byte>(buffer) : std::span<const std::byte>(),
                             .output = buffer});
    }
  }

  // The bytes that the sender moves in one step: it receives none.
  size_t step(size_t budget) {
    const uint64_t before = world_.bytes_written(0);
    engines_[0]->progress(budget);
    bool moved = true;
    while (moved) {
      moved = world_.deliver_some();
      for (size_t rank = 1; rank < engines_.size(); ++rank) moved |= engines_[rank]->progress();
    }
    return world_.bytes_written(0) - before;
  }
  bool is_over() const {
    return std::all_of(engines_.begin(), engines_.end(), [](const auto& engine) { return engine->is_idle(); });
  }
  bool is_right() const {
    return std::all_of(buffers_.begin(), buffers_.end(), [](const auto& buffers) {
      return std::all_of(buffers.begin(), buffers.end(), [&](const auto& buffer) { return *buffer == *buffers[0]; });
    });
  }

  ScriptedGate gate;

 private:
  testing::SimulatedWorld world_;
  std::vector<std::vector<std::unique_ptr<std::vector<std::byte>>>> buffers_;  // by execution and rank
  std::vector<std::unique_ptr<Engine>> engines_;
};

TEST(EngineGate, IsAskedInTheOrderOfTheStarts) {
  Broadcasts ranks(1);
  for (int i = 0; i < 3; ++i) ranks.start();
  while (!ranks.is_over()) ranks.step(500);
  EXPECT_EQ(ranks.gate.admitted.size(), 3 * Broadcasts::kElements / Broadcasts::kSlice);
  EXPECT_TRUE(std::is_sorted(ranks.gate.admitted.begin(), ranks.gate.admitted.end())) << "one has overtaken another";
  EXPECT_TRUE(ranks.is_right());
}

TEST(EngineBudget, BoundsTheBytesOfEveryStep) {
  for (const size_t budget : {1u, 7u, 24u, 100u, 333u}) {
    Broadcasts ranks(3);
    for (int i = 0; i < 2; ++i) ranks.start();
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
  Broadcasts ranks(1);
  ranks.gate.is_shut = true;
  ranks.start();
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
  EXPECT_EQ(ranks.gate.admitted.size(), Broadcasts::kElements / Broadcasts::kSlice);
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

TEST(EngineGate, LetsAllEndInAnyWorldWithAnyBudget) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomWorld world(seed, 5);
    RandomGate gate(seed);
    world.engine.gate = &gate;
    for (int i = 0; i < 3; ++i) world.add();
    if (world.below(2) == 0) world.step_budget = 1 + world.below(300);
    ASSERT_EQ(world.fault(), "");
  }
}

}  // namespace
}  // namespace banyan::run
