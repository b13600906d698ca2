#include "banyan/plan/two_tier/box_stages.h"

#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

using Boxes = std::vector<uint64_t>;  // row-major

Boxes random_boxes(uint32_t boxes, uint64_t most, uint32_t one_in, uint64_t seed) {
  std::mt19937_64 random(seed);
  Boxes traffic(size_t{boxes} * boxes);
  for (uint32_t from = 0; from < boxes; ++from)
    for (uint32_t to = 0; to < boxes; ++to)
      if (from != to && random() % one_in == 0) traffic[from * boxes + to] = random() % (most + 1);
  return traffic;
}

uint64_t largest_row_or_column(const Boxes& traffic, uint32_t boxes) {
  uint64_t largest = 0;
  for (uint32_t box = 0; box < boxes; ++box) {
    uint64_t row = 0, column = 0;
    for (uint32_t other = 0; other < boxes; ++other) {
      row += traffic[box * boxes + other];
      column += traffic[other * boxes + box];
    }
    largest = std::max({largest, row, column});
  }
  return largest;
}

// What every stage and all together must be, whatever the rule by which matchings are chosen.
void expect_right(const BoxStages& stages, const Boxes& traffic, uint32_t boxes, uint64_t rest) {
  const uint64_t largest = largest_row_or_column(traffic, boxes);
  EXPECT_EQ(stages.largest_sum(), largest);
  Boxes room(traffic.size());
  uint64_t sum = 0;
  for (size_t stage = 0; stage < stages.count(); ++stage) {
    EXPECT_GT(stages.length(stage), 0u);
    if (stage > 0) {
      EXPECT_LE(stages.length(stage), stages.length(stage - 1));
    }
    sum += stages.length(stage);
    std::vector<bool> receives(boxes);
    for (uint32_t from = 0; from < boxes; ++from) {
      const uint16_t to = stages.receivers(stage)[from];
      ASSERT_LT(to, boxes);
      EXPECT_FALSE(receives[to]) << "two senders to box " << to << " in stage " << stage;
      receives[to] = true;
      room[from * boxes + to] += stages.length(stage);
    }
  }
  EXPECT_LE(largest - sum, rest);
  if (rest > 0) return;
  EXPECT_EQ(sum, largest);
  for (size_t pair = 0; pair < traffic.size(); ++pair) EXPECT_GE(room[pair], traffic[pair]) << pair;
}

TEST(BoxStages, SumToTheLargestRowOrColumn) {
  for (const uint32_t boxes : {1u, 2u, 3u, 5u, 8u, 17u, 40u, 64u, 65u, 130u}) {
    BoxStages stages(boxes);
    for (uint64_t seed = 1; seed <= (boxes > 20 ? 2 : 20); ++seed)
      for (const uint32_t one_in : {1u, 4u}) {
        SCOPED_TRACE("boxes " + std::to_string(boxes) + " seed " + std::to_string(seed));
        const Boxes traffic = random_boxes(boxes, seed % 3 == 0 ? 3 : uint64_t{1} << (4 * (seed % 12)), one_in, seed);
        stages.decompose(traffic);
        expect_right(stages, traffic, boxes, 0);
      }
  }
}

TEST(BoxStages, AreAtMostThoseOfBirkhoffsTheorem) {
  for (const uint32_t boxes : {2u, 4u, 8u, 16u})
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      BoxStages stages(boxes);
      stages.decompose(random_boxes(boxes, 1 << 30, 1, seed));
      EXPECT_LE(stages.count(), boxes * boxes - 2 * boxes + 2) << "boxes " << boxes << " seed " << seed;
    }
}

TEST(BoxStages, AreFewForManyBoxes) {
  BoxStages stages(40);
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    stages.decompose(random_boxes(40, 1 << 30, 1, seed));
    EXPECT_LE(stages.count(), 40u * 10) << "seed " << seed;
  }
}

TEST(BoxStages, OfEqualTrafficAreOneLessThanBoxes) {
  for (const uint32_t boxes : {2u, 3u, 8u, 40u, 100u}) {
    Boxes traffic(size_t{boxes} * boxes, 1'000'003);
    for (uint32_t box = 0; box < boxes; ++box) traffic[box * boxes + box] = 0;
    BoxStages stages(boxes);
    stages.decompose(traffic);
    EXPECT_EQ(stages.count(), boxes - 1);
  }
}

// The first stage of a matrix whose sums are equal, against every permutation.
TEST(BoxStages, TakeTheMatchingWhoseSmallestEntryIsLargest) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const uint32_t boxes = 3 + seed % 4;
    std::mt19937_64 random(seed);
    Boxes traffic(size_t{boxes} * boxes);
    std::vector<uint32_t> order(boxes);
    std::iota(order.begin(), order.end(), 0);
    for (int layer = 0; layer < 6; ++layer) {  // a sum of permutations
      const uint64_t bytes = random() % 100;
      for (uint32_t i = boxes; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
      for (uint32_t from = 0; from < boxes; ++from) traffic[from * boxes + order[from]] += bytes;
    }
    std::sort(order.begin(), order.end());
    uint64_t best = 0;
    do {
      uint64_t least = UINT64_MAX;
      for (uint32_t from = 0; from < boxes; ++from) least = std::min(least, traffic[from * boxes + order[from]]);
      best = std::max(best, least);
    } while (std::next_permutation(order.begin(), order.end()));
    BoxStages stages(boxes);
    stages.decompose(traffic);
    ASSERT_GT(stages.count(), 0u) << "seed " << seed;
    EXPECT_EQ(stages.length(0), best) << "seed " << seed;
  }
}

TEST(BoxStages, LeaveARestWhenTheyAreAsked) {
  const Boxes traffic = random_boxes(8, 1 << 20, 1, 7);
  const uint64_t largest = largest_row_or_column(traffic, 8);
  BoxStages stages(8);
  stages.decompose(traffic);
  const size_t all = stages.count();
  stages.decompose(traffic, largest / 100);
  expect_right(stages, traffic, 8, largest / 100);
  EXPECT_LT(stages.count(), all / 2);
  stages.decompose(traffic, largest);
  EXPECT_EQ(stages.count(), 0u);
}

}  // namespace
}  // namespace banyan::plan
