#include "banyan/run/engine/engine.h"

#include "banyan/run/engine/test_fleet.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr element::DataType kFloats[] = {element::DataType::float16, element::DataType::bfloat16,
                                         element::DataType::float32, element::DataType::float64};

// Runs operations in one world; says what is wrong, or nothing.
std::string fault_of(std::vector<TestOperation>& operations, const EngineOptions& options,
                     const testing::SimulatedWorld::Options& world) {
  Fleet fleet(operations[0].options.ranks, options, world);
  std::string text;
  if (!fleet.run(operations)) return "stuck" + fleet.waiting();
  for (const TestOperation& operation : operations) {
    if (operation.wrong_elements() > 0) text += "wrong: " + operation.words() + "\n";
  }
  if (!fleet.world().is_quiet()) text += "messages nobody took";
  return text;
}

TEST(Engine, CarriesOutEveryCollectiveOnEveryTypeByEveryOp) {
  uint64_t seed = 0;
  for (const OperationKind kind : kTestKinds) {
    for (size_t type = 0; type < element::kDataTypes; ++type) {
      for (size_t op = 0; op < (reduces(kind) ? 5 : 1); ++op) {  // sum to avg
        for (uint32_t ranks = has_schedule(kind) ? 2 : 1; ranks <= 8; ++ranks) {
          ++seed;
          for (const bool in_place : {false, true}) {
            std::vector<TestOperation> operations;
            operations.push_back(TestOperation({.kind = kind,
                                                .ranks = ranks,
                                                .type = static_cast<element::DataType>(type),
                                                .op = static_cast<element::ReduceOp>(op),
                                                .in_place = in_place,
                                                .elements = 1 + seed % 60,
                                                .root = static_cast<uint32_t>(seed % ranks),
                                                .shape = static_cast<testing::TreeShape>(seed % 3),
                                                .seed = seed}));
            ASSERT_EQ(fault_of(operations, {.slice_bytes = 8 + seed % 50}, {.ranks = ranks, .seed = seed}), "")
                << operations[0].words();
          }
        }
      }
    }
  }
}

TEST(Engine, IsRightAndNeverStuckInAnyWorld) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomWorld world(seed);
    world.add();
    ASSERT_EQ(world.fault(), "");
  }
}

TEST(Engine, HasManyDifferentOperationsInFlight) {
  for (uint64_t seed = 10'001; seed <= 10'300; ++seed) {
    RandomWorld world(seed);
    for (int i = 0; i < 9; ++i) world.add();
    world.most_in_flight = 1 + static_cast<uint32_t>(world.below(9));
    ASSERT_EQ(world.fault(), "");
  }
}

// Many trees over a few bytes of room between any two ranks, all going through everybody: whatever could stand in the
// way of something else does.
TEST(Engine, ManyTreesShareTheNarrowestWorld) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<TestOperation> operations;
    for (uint64_t i = 0; i < 3; ++i) {
      operations.push_back(TestOperation({.ranks = 6,
                                          .elements = 300,
                                          .trees_per_root = 8,
                                          .shape = testing::TreeShape::path,
                                          .seed = seed * 10 + i}));
    }
    ASSERT_EQ(fault_of(operations, {.slice_bytes = 4, .window = 1},
                       {.ranks = 6, .least_capacity = 1, .most_capacity = 2, .seed = seed}),
              "")
        << "seed " << seed;
  }
}

// An allreduce of fractions, whose sums depend on the order of additions and on where they are rounded.
std::vector<std::vector<std::byte>> sums_of_fractions(const Schedule& schedule, element::DataType type,
                                                      element::ReduceOp op, const EngineOptions& options,
                                                      uint64_t seed) {
  constexpr uint32_t kRanks = 7;
  constexpr uint64_t kElements = 300;
  const size_t size = size_of(type);
  testing::SimulatedWorld world({.ranks = kRanks, .most_capacity = 400, .seed = seed});
  std::vector<std::vector<std::byte>> inputs, outputs;
  std::vector<std::unique_ptr<Engine>> engines;
  std::mt19937_64 random(99);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    inputs.emplace_back(kElements * size);
    outputs.emplace_back(kElements * size);
    for (uint64_t i = 0; i < kElements; ++i) write_element(type, inputs[rank].data() + i * size, uniform(random));
    engines.push_back(std::make_unique<Engine>(world.transport(rank), options));
    engines[rank]->start({.plan = std::make_shared<RankPlan>(make_rank_plan(schedule, kElements, rank)),
                          .task = {.type = type, .op = op, .divisor = kRanks},
                          .input = inputs[rank],
                          .output = outputs[rank]});
  }
  const auto is_idle = [](const auto& engine) { return engine->is_idle(); };
  for (int i = 0; i < 200'000 && !std::all_of(engines.begin(), engines.end(), is_idle); ++i) {
    world.deliver_some();
    engines[world.draw(kRanks)]->progress();
  }
  EXPECT_TRUE(std::all_of(engines.begin(), engines.end(), is_idle)) << "seed " << seed;
  return outputs;
}

TEST(Engine, GivesEqualBitsWhateverTheTimingSlicesAndWindow) {
  for (const element::DataType type : kFloats) {
    for (const testing::TreeShape shape : {testing::TreeShape::random, testing::TreeShape::star}) {
      const element::ReduceOp op = shape == testing::TreeShape::star ? element::ReduceOp::avg : element::ReduceOp::sum;
      const Schedule schedule = testing::sample_forest({.ranks = 7, .shape = shape, .seed = 5});
      std::vector<std::vector<std::byte>> first;
      for (uint64_t seed = 1; seed <= 25; ++seed) {
        const EngineOptions options{.slice_bytes = 8 + 13 * seed, .window = 1 + static_cast<uint32_t>(seed % 5)};
        const auto outputs = sums_of_fractions(schedule, type, op, options, seed);
        if (seed == 1) first = outputs;
        ASSERT_EQ(outputs, first) << to_string(type) << " seed " << seed;
        for (const auto& output : outputs) ASSERT_EQ(output, first[0]) << "ranks differ, seed " << seed;
      }
    }
  }
}

// 256 and many small ones: a bfloat16 has no 257, so that a sum which is rounded with every child never grows.
TEST(Engine, RoundsHalvesOncePerEdgeAndNotWithEveryChild) {
  const Schedule star = testing::sample_forest({.ranks = 7, .trees_per_root = 1, .shape = testing::TreeShape::star});
  testing::SimulatedWorld world({.ranks = 7, .seed = 3});
  std::vector<std::vector<std::byte>> buffers(7, std::vector<std::byte>(7 * 2));
  std::vector<std::unique_ptr<Engine>> engines;
  for (uint32_t rank = 0; rank < 7; ++rank) {
    for (size_t i = 0; i < 7; ++i)
      write_element(element::DataType::bfloat16, buffers[rank].data() + 2 * i, i == rank ? 256 : 1);
    engines.push_back(std::make_unique<Engine>(world.transport(rank), EngineOptions()));
    engines[rank]->start({.plan = std::make_shared<RankPlan>(make_rank_plan(star, 7, rank)),
                          .task = {.type = element::DataType::bfloat16},
                          .input = buffers[rank],
                          .output = buffers[rank]});
  }
  for (int i = 0; i < 20'000; ++i) {
    world.deliver_some();
    engines[world.draw(7)]->progress();
  }
  for (const auto& buffer : buffers) {
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(read_element(element::DataType::bfloat16, buffer.data() + 2 * i), 262);
  }
}

TEST(Engine, SendsOneMessagePerSliceAndTreeEdge) {
  // 4 ranks, one tree per rank, 3 edges up and 3 down; no chunk has more than a slice.
  std::vector<TestOperation> operations;
  operations.push_back(TestOperation({.ranks = 4, .trees_per_root = 1}));
  Fleet fleet(4, {}, {.ranks = 4});
  ASSERT_TRUE(fleet.run(operations));
  uint64_t messages = 0;
  for (uint32_t rank = 0; rank < 4; ++rank) messages += fleet.engine(rank).messages_sent();
  EXPECT_EQ(messages, 4u * 6);
  EXPECT_EQ(operations[0].wrong_elements(), 0u);
}

// A barrier costs 2 (n - 1) messages along a tree of height 3.
TEST(Engine, LetsNobodyThroughABarrierBeforeAllHaveCome) {
  testing::SimulatedWorld world({.ranks = 8});
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<Engine::Ticket> tickets(8);
  const auto enter = [&](uint32_t rank) {
    const auto plan = std::make_shared<RankPlan>(make_barrier_plan({.rank = rank, .ranks = 8}));
    tickets[rank] = engines[rank]->start({.plan = plan});
  };
  const auto work = [&] {
    for (int i = 0; i < 20'000; ++i) {
      world.deliver_some();
      engines[world.draw(8)]->progress();
    }
  };
  for (uint32_t rank = 0; rank < 8; ++rank)
    engines.push_back(std::make_unique<Engine>(world.transport(rank), EngineOptions()));
  for (uint32_t rank = 0; rank < 8; ++rank) {
    if (rank != 5) enter(rank);
  }
  work();
  for (uint32_t rank = 0; rank < 8; ++rank) {
    if (rank == 5) continue;
    EXPECT_EQ(engines[rank]->is_done(tickets[rank]), false) << rank;
  }
  enter(5);
  work();
  uint64_t messages = 0;
  for (uint32_t rank = 0; rank < 8; ++rank) {
    EXPECT_TRUE(engines[rank]->is_done(tickets[rank])) << rank;
    messages += engines[rank]->messages_sent();
  }
  EXPECT_EQ(messages, 14u);
}

TEST(Engine, UsesItsMemoryAgainAndGivesItBack) {
  Fleet fleet(6, {.slice_bytes = 64}, {.ranks = 6, .seed = 4});
  size_t after_first = 0;
  for (uint64_t round = 0; round < 20; ++round) {
    std::vector<TestOperation> operations;
    for (int i = 0; i < 3; ++i) operations.push_back(TestOperation({.ranks = 6, .elements = 2000, .seed = 7}));
    ASSERT_TRUE(fleet.run(operations));
    size_t held = 0;
    for (uint32_t rank = 0; rank < 6; ++rank) held += fleet.engine(rank).pool().held_bytes();
    // Slots are taken when slices come before their turn, which depends on timing; three operations of two trees for
    // each of six ranks have at most a window for every child and for every sum.
    EXPECT_LE(held, 3u * 12 * (5 + 5) * 4 * 64);
    if (round == 9) after_first = held;
    if (round == 19) {
      EXPECT_LE(held, after_first * 2);
    }
  }
  for (uint32_t rank = 0; rank < 6; ++rank) EXPECT_EQ(fleet.engine(rank).pool().taken_bytes(), 0u);
}

}  // namespace
}  // namespace banyan::run
