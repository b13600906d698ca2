// Many operations of many ranks, with production engines in a simulated world. For the tests of the engine only.
//
// Operations are described by what every rank has and what it must get, worked out here element by element, knowing
// nothing of plans: an element of an output is the reduction of elements of inputs, or a copy of one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "banyan/run/call/operation.h"
#include "banyan/run/engine/direct_plan.h"
#include "banyan/run/engine/engine.h"
#include "banyan/testing/simulated_transport.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {

// The kinds of operations. A group is messages between pairs; the blocks of a gather and a scatter differ in size.
inline constexpr std::array kTestKinds = {
    OperationKind::all_gather,       OperationKind::reduce_scatter, OperationKind::all_reduce,
    OperationKind::broadcast,        OperationKind::reduce,         OperationKind::all_gather_v,
    OperationKind::reduce_scatter_v, OperationKind::all_to_all,     OperationKind::all_to_all_v,
    OperationKind::gather,           OperationKind::scatter,        OperationKind::group,
    OperationKind::barrier};
// Those that this rank exchanges anything with, ascending.
std::vector<uint32_t> peers_of(const RankPlan& plan);
// Whether it follows a schedule, which needs two ranks.
bool has_schedule(OperationKind kind);

struct TestOperation {
  struct Options {
    OperationKind kind = OperationKind::all_reduce;
    uint32_t ranks = 2;
    element::DataType type = element::DataType::float32;
    element::ReduceOp op = element::ReduceOp::sum;
    bool in_place = false;
    uint64_t elements = 100;  // of the largest buffer, about
    uint32_t root = 0;
    uint32_t trees_per_root = 2;
    testing::TreeShape shape = testing::TreeShape::random;
    bool is_confirmed = false;
    SliceCodec* codec = nullptr;
    // Of float32, sums and averages: all ranks have residuals, and inputs are whole numbers whatever the kind. Results
    // are right when they and what was lost make up what ranks had: see wrong_elements().
    bool has_residual = false;
    uint64_t seed = 1;  // of trees, blocks and data
  };
  explicit TestOperation(const Options& options);

  // A plan of other trees for the same, and the one that is used.
  void use_trees(uint64_t seed);

  EngineCommand command(uint32_t rank, uint64_t sequence);
  // The output of a rank is copied, and its buffers are spoilt, as a caller may who uses them for something else.
  void take_result(uint32_t rank);
  // Elements of all results, or of that of one rank, that are not what they must be: with residuals, the sum over their
  // sources of (input + residual - lost), which whole numbers make exact (an average: nearly).
  uint64_t wrong_elements() const;
  uint64_t wrong_elements(uint32_t rank) const;
  std::string words() const;

  Options options;
  uint64_t signature = 0;

 private:
  struct Source {
    uint32_t rank = 0;
    uint64_t at = 0;
  };
  struct Rank {
    std::shared_ptr<const RankPlan> plan;
    std::vector<std::byte> memory;                                // input and output
    uint64_t input_at = 0, input = 0, output_at = 0, output = 0;  // elements
    std::vector<std::byte> expected, result;
    std::vector<float> residual, lost, result_lost;  // by element of the input
    std::vector<std::vector<Source>> sources;        // by element of the output, with residuals
  };
  // Of an output element: where it comes from; those that are reduced, in any order. None: it is left alone.
  using Sources = std::function<std::vector<Source>(uint32_t rank, uint64_t at)>;

  uint64_t below(uint64_t n) { return random_() % n; }
  void draw_blocks();
  // Where the share of a rank begins.
  uint64_t share_at(uint32_t rank) const { return options.elements * rank / options.ranks; }
  void set_sizes();
  Sources sources() const;
  void lay_out(const Sources& sources);
  void fill();
  void write_sample(uint32_t rank, uint64_t at, std::byte* element) const;
  double sample(uint32_t rank, uint64_t at) const;
  void write_answer(std::span<const Source> sources, std::byte* element) const;
  bool is_conserved(const Rank& rank, uint64_t at) const;
  std::optional<Schedule> schedule(uint64_t seed) const;
  RankPlan make_plan(const Schedule* schedule, uint32_t rank) const;

  std::mt19937_64 random_;
  size_t size_;                             // of an element
  std::vector<std::vector<Block>> blocks_;  // by owner, then by the other: sent[r][p], or of [0] alone
  std::vector<std::vector<Block>> received_;
  std::vector<std::vector<Transfer>> transfers_;  // by rank
  std::vector<Rank> ranks_;
};

class Fleet {
 public:
  Fleet(uint32_t ranks, const EngineOptions& options, const testing::SimulatedWorld::Options& world);

  // Every rank starts all operations in their order, whenever it likes, and at most so many at a time. Results are
  // taken. False when it got stuck. Throws what an engine throws.
  bool run(std::vector<TestOperation>& operations, uint32_t most_in_flight = 4);
  // The same, with lanes that break after some writes each; then all ranks do what engine.h says.
  bool run_with_losses(std::vector<TestOperation>& operations, uint64_t writes_between, uint32_t most_in_flight = 4);
  uint32_t losses() const { return losses_; }
  // Of each step, in bytes.
  size_t step_budget = Engine::kNoBudget;

  Engine& engine(uint32_t rank) { return *engines_[rank]; }
  testing::SimulatedWorld& world() { return world_; }
  std::string waiting() const;

 private:
  struct Rank {
    size_t begun = 0;                                 // operations
    std::map<size_t, Engine::Ticket> under_way = {};  // by operation
  };
  bool step(std::vector<TestOperation>& operations, uint32_t most_in_flight);
  void recover(std::vector<TestOperation>& operations);

  uint64_t sequences_ = 0;
  uint32_t losses_ = 0;
  testing::SimulatedWorld world_;
  std::vector<std::unique_ptr<Engine>> engines_;
  std::vector<Rank> ranks_;
};

// Operations, engines and a world by chance: all follow from the seed.
struct RandomWorld {
  explicit RandomWorld(uint64_t seed, uint32_t most_ranks = 7);

  // One more operation, by chance but for what `change` makes of it.
  void add(const std::function<void(TestOperation::Options&)>& change = {});
  // Carries all out, and says what is wrong, or nothing. `writes_between`: lanes are lost, as Fleet says.
  std::string fault(uint64_t writes_between = 0);
  uint64_t below(uint64_t n) { return random() % n; }

  const uint64_t seed;
  std::mt19937_64 random;
  EngineOptions engine;
  testing::SimulatedWorld::Options world;
  size_t step_budget = Engine::kNoBudget;
  uint32_t most_in_flight = 4;
  std::vector<TestOperation> operations;
  uint32_t losses = 0;
};

}  // namespace banyan::run
