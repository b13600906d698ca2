#include "banyan/plan/bound/overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/testing/allreduce_program.h"
#include "banyan/testing/random_fabric.h"

namespace banyan::plan {
namespace {

Collective allreduce(const Fabric& fabric) { return Collective::make(fabric, {.kind = CollectiveKind::all_reduce}); }

double throughput(const Fraction& seconds_per_byte) { return 1 / seconds_per_byte.to_double(); }

Fabric random_fabric_of(uint64_t seed) {
  std::mt19937_64 random(seed);
  return banyan::testing::random_fabric({.ranks = 2 + static_cast<uint32_t>(random() % 7),
                                         .switches = static_cast<uint32_t>(random() % 3),
                                         .extra_cables = static_cast<uint32_t>(random() % 10),
                                         .max_gigabytes = 1 + static_cast<uint32_t>(random() % 9),
                                         .directed = random() % 2 == 0,
                                         .seed = seed});
}

TEST(Overlap, IsTheProgramOfAllFlowsOnRandomFabrics) {
  int without_shares = 0;
  uint32_t most_rounds = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const Fabric fabric = random_fabric_of(seed);
    const Collective collective = allreduce(fabric);
    const Overlap overlap = solve_overlap(fabric, collective);
    const double expected = banyan::testing::allreduce_throughput(fabric, collective);
    EXPECT_NEAR(throughput(overlap.witness.bound), expected, 1e-6 * expected);
    EXPECT_TRUE(holds(overlap.witness, fabric, collective));
    most_rounds = std::max(most_rounds, overlap.rounds);
    if (!overlap.shares) {
      ++without_shares;
      continue;
    }
    EXPECT_EQ(overlap.shares->seconds_per_byte(Network(fabric, collective, false)), overlap.witness.bound);
  }
  EXPECT_EQ(without_shares, 0);
  std::printf("most rounds %u\n", most_rounds);
}

}  // namespace
}  // namespace banyan::plan
