#include "banyan/plan/two_tier/two_tier.h"

#include <deque>

#include "banyan/plan/two_tier/parcels.h"
#include "banyan/plan/two_tier/test_traffic.h"
#include "banyan/run/host/test_allocations.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

struct Case {
  std::string name;
  TwoTierShape shape;
  Traffic traffic;
};

// Everything, from nothing to the largest that is planned for.
std::vector<Case> cases() {
  std::vector<Case> made;
  const auto add = [&](std::string name, TwoTierShape shape, Traffic traffic) {
    name += ", " + std::to_string(shape.boxes) + " boxes of " + std::to_string(shape.gpus);
    made.push_back({std::move(name), shape, std::move(traffic)});
  };
  for (const TwoTierShape shape : {TwoTierShape{2, 8}, {4, 8}, {3, 3}, {5, 1}, {8, 8}, {2, 64}, {66, 2}}) {
    const uint32_t ranks = shape.ranks();
    const uint64_t seeds = ranks > 100 ? 1 : 4;
    for (uint64_t seed = 1; seed <= seeds; ++seed) {
      const std::string of_seed = " traffic of seed " + std::to_string(seed);
      add("random" + of_seed, shape, random_traffic(ranks, 1 << 20, seed));
      add("tiny" + of_seed, shape, random_traffic(ranks, 2, seed));
      add("huge" + of_seed, shape, random_traffic(ranks, TwoTierPlanner::kMostBytes, seed));
      add("skewed" + of_seed, shape, zipf_traffic(ranks, 0.9, 1 << 26, seed));
      Traffic sparse = random_traffic(ranks, 1 << 16, seed);
      for (size_t i = 0; i < sparse.size(); ++i) sparse[i] = sparse[i] % 7 == 0 ? sparse[i] : 0;
      add("sparse" + of_seed, shape, sparse);
    }
    const Traffic zeros(size_t{ranks} * ranks);
    add("no traffic", shape, zeros);
    Traffic row = zeros, column = zeros, diagonal = zeros, one = zeros, inside = zeros;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      row[size_t{ranks - 1} * ranks + rank] = uint64_t{1} << 40;
      column[size_t{rank} * ranks + 1] = (uint64_t{1} << 40) + rank;
      diagonal[size_t{rank} * ranks + rank] = 1'000 + rank;
      for (uint32_t other = 0; other < ranks; ++other)
        if (rank / shape.gpus == other / shape.gpus) inside[size_t{rank} * ranks + other] = 7 * rank + other;
    }
    one[ranks - 1] = 1;
    add("one hot row", shape, row);
    add("one hot column", shape, column);
    add("the diagonal only", shape, diagonal);
    add("one byte", shape, one);
    add("inside boxes only", shape, inside);
    add("equal", shape, Traffic(zeros.size(), 4096));
    add("2^40 everywhere", shape, Traffic(zeros.size(), uint64_t{1} << 40));
  }
  return made;
}

// Carries out a plan as the comment of two_tier.h tells, and knows nothing else of it. Runs of bytes lie in queues by
// rank and receiving box.
class Interpreter {
 public:
  Interpreter(const TwoTierPlan& plan, const Traffic& traffic) : plan_(plan), traffic_(traffic) {
    const TwoTierShape shape = plan.shape();
    queues_.resize(size_t{shape.ranks()} * shape.boxes);
    sent_.resize(size_t{shape.boxes} * shape.boxes);
    for (uint32_t from = 0; from < shape.boxes; ++from)
      for (uint32_t to = 0; to < shape.boxes; ++to)
        if (from != to) fill(from, to);
  }

  void send(const BoxSend& send) {
    const uint32_t gpus = plan_.shape().gpus;
    ASSERT_NE(send.from, send.to);
    uint64_t least = UINT64_MAX, most = 0, all = 0;
    for (uint32_t gpu = 0; gpu < gpus; ++gpu) {
      uint64_t bytes = 0;  // one byte at a time would take too long: how many of them are this GPU's
      const uint64_t before = sent_[send.from * plan_.shape().boxes + send.to];
      // Byte c of the pair, from 0, is that of GPU c mod G.
      bytes = (send.bytes + before) / gpus + (gpu < (send.bytes + before) % gpus ? 1 : 0);
      bytes -= before / gpus + (gpu < before % gpus ? 1 : 0);
      least = std::min(least, bytes);
      most = std::max(most, bytes);
      all += bytes;
      deliver(queue(send.from * gpus + gpu, send.to), bytes, send.to);
    }
    EXPECT_EQ(all, send.bytes);
    EXPECT_LE(most - least, 1u);
    sent_[send.from * plan_.shape().boxes + send.to] += send.bytes;
  }

  // By source and target.
  const std::map<std::pair<uint32_t, uint32_t>, uint64_t>& delivered() const { return delivered_; }

  void expect_nothing_left() const {
    for (const auto& queue : queues_) EXPECT_TRUE(queue.empty());
  }

 private:
  struct Run {
    uint32_t source, target;  // ranks
    uint64_t bytes;
  };
  using Queue = std::deque<Run>;

  Queue& queue(uint32_t rank, uint32_t box) { return queues_[rank * plan_.shape().boxes + box]; }

  void fill(uint32_t from, uint32_t to) {
    const uint32_t gpus = plan_.shape().gpus, ranks = plan_.shape().ranks();
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> given;
    std::vector<uint64_t> held(gpus);
    for (const TwoTierMove& move : plan_.moves(from, to)) {
      EXPECT_GT(move.bytes, 0u);
      EXPECT_NE(move.from, move.to);
      given[{move.from, move.target}] += move.bytes;
    }
    for (uint32_t gpu = 0; gpu < gpus; ++gpu)
      for (uint32_t target = gpu; target < gpu + gpus; ++target) {
        const uint32_t source = from * gpus + gpu, receiver = to * gpus + target % gpus;
        const uint64_t own = traffic_[source * ranks + receiver], gives = given[{gpu, target % gpus}];
        ASSERT_LE(gives, own);
        if (own > gives) queue(source, to).push_back({source, receiver, own - gives});
        held[gpu] += own - gives;
      }
    for (const TwoTierMove& move : plan_.moves(from, to)) {
      queue(from * gpus + move.to, to).push_back({from * gpus + move.from, to * gpus + move.target, move.bytes});
      held[move.to] += move.bytes;
    }
    const auto [least, most] = std::minmax_element(held.begin(), held.end());
    EXPECT_LE(*most - *least, 1u) << "box " << from << " for box " << to << " is not balanced";
  }

  void deliver(Queue& queue, uint64_t bytes, uint32_t box) {
    while (bytes > 0) {
      ASSERT_FALSE(queue.empty()) << bytes << " bytes are missing";
      Run& run = queue.front();
      const uint64_t part = std::min(bytes, run.bytes);
      EXPECT_EQ(run.target / plan_.shape().gpus, box);
      delivered_[{run.source, run.target}] += part;
      run.bytes -= part;
      bytes -= part;
      if (run.bytes == 0) queue.pop_front();
    }
  }

  const TwoTierPlan& plan_;
  const Traffic& traffic_;
  std::vector<Queue> queues_;
  std::vector<uint64_t> sent_;
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> delivered_;
};

void expect_delivered(const TwoTierPlan& plan, const Traffic& traffic) {
  Interpreter interpreter(plan, traffic);
  for (size_t stage = 0; stage < plan.stage_count(); ++stage)
    for (const BoxSend& send : plan.stage(stage)) interpreter.send(send);
  for (const BoxSend& send : plan.rest()) interpreter.send(send);
  interpreter.expect_nothing_left();
  const uint32_t ranks = plan.shape().ranks(), gpus = plan.shape().gpus;
  size_t pairs = 0;
  for (uint32_t from = 0; from < ranks; ++from)
    for (uint32_t to = 0; to < ranks; ++to) {
      const uint64_t due = traffic[from * ranks + to];
      if (due == 0 || from / gpus == to / gpus) continue;
      ++pairs;
      const auto got = interpreter.delivered().find({from, to});
      ASSERT_NE(got, interpreter.delivered().end()) << from << " -> " << to;
      ASSERT_EQ(got->second, due) << from << " -> " << to;
    }
  EXPECT_EQ(pairs, interpreter.delivered().size());
}

TEST(TwoTier, DeliversEveryByte) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name);
    TwoTierPlanner planner(test.shape);
    expect_delivered(planner.plan(test.traffic), test.traffic);
  }
}

TEST(TwoTier, HasNoIncastAndTheLeastSumOfStages) {
  for (const Case& test : cases()) {
    SCOPED_TRACE(test.name);
    TwoTierPlanner planner(test.shape, {.pieces = 7, .smallest_piece = 100});
    const TwoTierPlan& plan = planner.plan(test.traffic);
    const uint32_t boxes = test.shape.boxes;
    std::vector<uint64_t> sends(boxes), receives(boxes);
    for (uint32_t from = 0; from < test.shape.ranks(); ++from)
      for (uint32_t to = 0; to < test.shape.ranks(); ++to)
        if (from / test.shape.gpus != to / test.shape.gpus) {
          sends[from / test.shape.gpus] += test.traffic[from * test.shape.ranks() + to];
          receives[to / test.shape.gpus] += test.traffic[from * test.shape.ranks() + to];
        }
    const uint64_t largest =
        std::max(*std::max_element(sends.begin(), sends.end()), *std::max_element(receives.begin(), receives.end()));
    uint64_t sum = 0;
    for (size_t stage = 0; stage < plan.stage_count(); ++stage) {
      sum += plan.stage_length(stage);
      std::vector<bool> is_sender(boxes), is_receiver(boxes);
      for (const BoxSend& send : plan.stage(stage)) {
        ASSERT_LT(send.from, boxes);
        ASSERT_LT(send.to, boxes);
        EXPECT_FALSE(is_sender[send.from]) << "stage " << stage;
        EXPECT_FALSE(is_receiver[send.to]) << "stage " << stage;
        is_sender[send.from] = is_receiver[send.to] = true;
        EXPECT_GT(send.bytes, 0u);
        EXPECT_LE(send.bytes, plan.stage_length(stage));
      }
    }
    EXPECT_EQ(sum, largest);
    EXPECT_EQ(plan.largest_sum(), largest);
    EXPECT_TRUE(plan.rest().empty());
  }
}

TEST(TwoTier, BalanceMovesNoMoreThanItMust) {
  const TwoTierShape shape{3, 5};
  TwoTierPlanner planner(shape);
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    const Traffic traffic = zipf_traffic(shape.ranks(), 0.7, 10'000, seed);
    const TwoTierPlan& plan = planner.plan(traffic);
    for (uint32_t from = 0; from < shape.boxes; ++from)
      for (uint32_t to = 0; to < shape.boxes; ++to) {
        if (from == to) continue;
        uint64_t moved = 0, too_much = 0;
        for (const TwoTierMove& move : plan.moves(from, to)) moved += move.bytes;
        const uint64_t share = plan.box_bytes(from, to) / shape.gpus, more = plan.box_bytes(from, to) % shape.gpus;
        for (uint32_t gpu = 0; gpu < shape.gpus; ++gpu) {
          uint64_t held = 0;
          for (uint32_t target = 0; target < shape.gpus; ++target)
            held += traffic[(from * shape.gpus + gpu) * shape.ranks() + to * shape.gpus + target];
          const uint64_t due = share + (gpu < more ? 1 : 0);
          too_much += held > due ? held - due : 0;
        }
        EXPECT_EQ(moved, too_much) << "seed " << seed << ", box " << from << " for box " << to;
      }
  }
}

// GPU 0 holds 8 bytes for each of two targets: those for target 1 go to GPU 1, where they are at the right place.
TEST(TwoTier, GivesBytesToTheGpuThatSendsToTheirTarget) {
  TwoTierPlanner planner({2, 2});
  Traffic traffic(16);
  traffic[0 * 4 + 2] = traffic[0 * 4 + 3] = 8;
  const TwoTierPlan& plan = planner.plan(traffic);
  ASSERT_EQ(plan.moves(0, 1).size(), 1u);
  const TwoTierMove& move = plan.moves(0, 1)[0];
  EXPECT_EQ(move.from, 0);
  EXPECT_EQ(move.to, 1);
  EXPECT_EQ(move.target, 1);
  EXPECT_EQ(move.bytes, 8u);
}

TEST(TwoTier, CutsLongStagesAndBeginsAndEndsWithShortOnes) {
  TwoTierPlanner planner({4, 2}, {.pieces = 10, .smallest_piece = 0});
  const TwoTierPlan& plan = planner.plan(random_traffic(8, 1 << 20, 3));
  const size_t last = plan.stage_count() - 1;
  size_t longest = 0;
  for (size_t stage = 0; stage <= last; ++stage) {
    EXPECT_LE(plan.stage_length(stage), plan.largest_sum() / 10);
    if (plan.stage_length(stage) > plan.stage_length(longest)) longest = stage;
  }
  for (size_t stage = 0; stage < longest; ++stage) EXPECT_LE(plan.stage_length(stage), plan.stage_length(stage + 1));
  for (size_t stage = longest; stage < last; ++stage) EXPECT_GE(plan.stage_length(stage), plan.stage_length(stage + 1));
  EXPECT_LT(plan.stage_length(0), plan.stage_length(longest));
  EXPECT_LT(plan.stage_length(last), plan.stage_length(longest));
}

TEST(TwoTier, CutsNoPiecesSmallerThanAsked) {
  const Traffic traffic(64, 1000);  // one stage: 4 GPUs send 4000 bytes each
  TwoTierPlanner whole({2, 4}, {.pieces = 100, .smallest_piece = 4000});
  EXPECT_EQ(whole.plan(traffic).stage_count(), 1u);
  TwoTierPlanner halves({2, 4}, {.pieces = 100, .smallest_piece = 2000});
  EXPECT_EQ(halves.plan(traffic).stage_count(), 2u);
  TwoTierPlanner never({2, 4}, {.pieces = 100, .smallest_piece = UINT64_MAX});
  EXPECT_EQ(never.plan(traffic).stage_count(), 1u);
}

TEST(TwoTier, SendsASmallRestAtOnce) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const TwoTierShape shape{8, 8};
    const Traffic traffic = random_traffic(shape.ranks(), 1 << 20, seed);
    TwoTierPlanner all(shape);
    const size_t stages = all.plan(traffic).stage_count();
    const uint64_t rest = all.plan(traffic).largest_sum() / 100;
    TwoTierPlanner planner(shape, {.rest = rest});
    const TwoTierPlan& plan = planner.plan(traffic);
    expect_delivered(plan, traffic);
    EXPECT_LT(plan.stage_count() + 10, stages);
    EXPECT_FALSE(plan.rest().empty());
    EXPECT_LE(plan.rest_length(), rest);
    uint64_t sum = 0;
    for (size_t stage = 0; stage < plan.stage_count(); ++stage) sum += plan.stage_length(stage);
    EXPECT_LE(sum + plan.rest_length(), plan.largest_sum());
  }
}

TEST(TwoTier, ParcelsAreWhatTheInterpreterDelivers) {
  const TwoTierShape shape{3, 4};
  const Traffic traffic = zipf_traffic(shape.ranks(), 0.8, 1 << 20, 5);
  TwoTierPlanner planner(shape);
  const TwoTierPlan& plan = planner.plan(traffic);
  for (uint32_t from = 0; from < shape.boxes; ++from)
    for (uint32_t to = 0; to < shape.boxes; ++to) {
      if (from == to) continue;
      std::map<std::pair<uint32_t, uint32_t>, uint64_t> bytes;
      uint32_t stage = 0;
      for (const Parcel& parcel : parcels_of(plan, traffic, from, to)) {
        EXPECT_GE(parcel.stage, stage);
        stage = parcel.stage;
        bytes[{from * shape.gpus + parcel.source, to * shape.gpus + parcel.target}] += parcel.bytes;
      }
      for (uint32_t source = from * shape.gpus; source < (from + 1) * shape.gpus; ++source)
        for (uint32_t target = to * shape.gpus; target < (to + 1) * shape.gpus; ++target)
          EXPECT_EQ((bytes[{source, target}]), traffic[source * shape.ranks() + target]);
    }
}

std::string in_words(const TwoTierPlan& plan) {
  std::string words;
  const auto add = [&](const BoxSend& send) {
    words += " " + std::to_string(send.from) + ">" + std::to_string(send.to) + ":" + std::to_string(send.bytes);
  };
  for (uint32_t from = 0; from < plan.shape().boxes; ++from)
    for (uint32_t to = 0; to < plan.shape().boxes; ++to)
      for (const TwoTierMove& move : plan.moves(from, to))
        words += " " + std::to_string(move.from) + ">" + std::to_string(move.to) + ">" + std::to_string(move.target) +
                 ":" + std::to_string(move.bytes);
  for (size_t stage = 0; stage < plan.stage_count(); ++stage) {
    words += "\n" + std::to_string(plan.stage_length(stage));
    for (const BoxSend& send : plan.stage(stage)) add(send);
  }
  words += "\n";
  for (const BoxSend& send : plan.rest()) add(send);
  return words;
}

TEST(TwoTier, DoesNotRememberEarlierCalls) {
  const TwoTierShape shape{4, 8};
  std::vector<Traffic> matrices;
  std::vector<std::string> fresh;
  for (const Case& test : cases())
    if (test.shape.boxes == shape.boxes && test.shape.gpus == shape.gpus) {
      matrices.push_back(test.traffic);
      TwoTierPlanner planner(shape, {.rest = 1000});
      fresh.push_back(in_words(planner.plan(test.traffic)));
    }
  ASSERT_GT(matrices.size(), 20u);
  std::vector<uint32_t> order(matrices.size());
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(1);
  TwoTierPlanner planner(shape, {.rest = 1000});
  for (int round = 0; round < 5; ++round) {
    shuffle_by(random, order);
    for (const uint32_t i : order) ASSERT_EQ(in_words(planner.plan(matrices[i])), fresh[i]) << "matrix " << i;
  }
}

TEST(TwoTier, AllocatesNothingAfterItIsMade) {
  for (const Case& test : cases()) {
    if (test.shape.boxes > 64) continue;
    TwoTierPlanner planner(test.shape);
    const uint64_t before = run::allocations();
    planner.plan(test.traffic);
    EXPECT_EQ(run::allocations(), before) << test.name;
  }
}

TEST(TwoTier, RefusesWhatItCannotPlan) {
  const auto error_of_shape = [](uint32_t boxes, uint32_t gpus) {
    return testing::error_of([&] { TwoTierPlanner planner({boxes, gpus}); });
  };
  EXPECT_EQ(error_of_shape(1, 8), "an all-to-all on two tiers needs two boxes or more, and this has 1");
  EXPECT_EQ(error_of_shape(2, 0), "an all-to-all on two tiers needs a GPU or more in each box");
  EXPECT_EQ(error_of_shape(257, 1),
            "257 boxes of 1 GPUs: at most 256 boxes, 64 GPUs a box and 4096 ranks are planned for");
  EXPECT_EQ(error_of_shape(128, 64),
            "128 boxes of 64 GPUs: at most 256 boxes, 64 GPUs a box and 4096 ranks are planned for");
  EXPECT_EQ(testing::error_of([] {
              TwoTierPlanner planner({2, 2}, {.pieces = 0});
            }),
            "stages cannot be cut into 0 pieces: ask for 1 or more");
  TwoTierPlanner planner({2, 2});
  EXPECT_EQ(testing::error_of([&] { planner.plan(Traffic(15)); }, ErrorCode::invalid_input),
            "the matrix of bytes has 15 entries: 4 ranks need 16");
  Traffic traffic(16);
  traffic[6] = TwoTierPlanner::kMostBytes + 1;
  EXPECT_EQ(testing::error_of([&] { planner.plan(traffic); }, ErrorCode::unsupported),
            "rank 1 has 17592186044417 bytes for rank 2: at most 2^44 are planned for");
  traffic[6] = TwoTierPlanner::kMostBytes;
  expect_delivered(planner.plan(traffic), traffic);
}

}  // namespace
}  // namespace banyan::plan
