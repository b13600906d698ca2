#include "banyan/plan/direct/balance.h"

#include "banyan/plan/lp/linear_program.h"
#include "banyan/testing/test.h"

namespace banyan::plan {
namespace {

// By the formula: the set of groups with the largest ratio, of all there are.
Fraction worst_ratio(std::span<const SourceGroup> groups, std::span<const int64_t> capacity) {
  Fraction worst(0);
  for (uint32_t set = 1; set < uint32_t{1} << groups.size(); ++set) {
    std::vector<bool> used(capacity.size(), false);
    int64_t weight = 0, total = 0;
    for (uint32_t g = 0; g < groups.size(); ++g) {
      if ((set >> g & 1) == 0) continue;
      weight += groups[g].weight;
      for (const uint32_t a : groups[g].arcs) used[a] = true;
    }
    for (uint32_t a = 0; a < capacity.size(); ++a) total += used[a] ? capacity[a] : 0;
    worst = std::max(worst, Fraction(weight, total));
  }
  return worst;
}

// By a linear program: minimise U, parts sum to the weights, no arc has more than U times its capacity.
double least_load(std::span<const SourceGroup> groups, std::span<const int64_t> capacity) {
  LinearProgram program;
  const int load = program.add_column(1);
  std::vector<std::vector<LinearProgram::Term>> on(capacity.size());
  std::vector<std::vector<LinearProgram::Term>> of;
  for (const SourceGroup& group : groups) {
    auto& parts = of.emplace_back();
    for (const uint32_t a : group.arcs) {
      parts.push_back({.column = program.add_column(0), .factor = 1});
      on[a].push_back(parts.back());
    }
  }
  for (size_t g = 0; g < groups.size(); ++g) {
    const auto weight = static_cast<double>(groups[g].weight);
    program.add_row(of[g], weight, weight);
  }
  for (size_t a = 0; a < capacity.size(); ++a) {
    on[a].push_back({.column = load, .factor = -static_cast<double>(capacity[a])});
    program.add_row(on[a], -LinearProgram::kInfinity, 0);
  }
  return program.solve().value;
}

void expect_parts_fit(const Balance& balanced, std::span<const SourceGroup> groups, std::span<const int64_t> capacity) {
  std::vector<int128> on(capacity.size(), 0);
  for (size_t g = 0; g < groups.size(); ++g) {
    int128 sum = 0;
    ASSERT_EQ(balanced.parts[g].size(), groups[g].arcs.size());
    for (size_t i = 0; i < groups[g].arcs.size(); ++i) {
      EXPECT_GE(balanced.parts[g][i], 0);
      sum += balanced.parts[g][i];
      on[groups[g].arcs[i]] += balanced.parts[g][i];
    }
    EXPECT_EQ(sum, groups[g].weight * balanced.load.denominator());
  }
  for (size_t a = 0; a < capacity.size(); ++a) EXPECT_LE(on[a], balanced.load.numerator() * capacity[a]);
}

TEST(Balance, SharesOneShardOutByBandwidth) {
  const std::vector<SourceGroup> groups = {{.arcs = {0, 1}, .weight = 1}};
  const std::vector<int64_t> capacity = {3, 1};
  const Balance balanced = balance(groups, capacity);
  EXPECT_EQ(balanced.load, Fraction(1, 4));
  EXPECT_EQ(balanced.parts, (std::vector<std::vector<int128>>{{3, 1}}));
}

TEST(Balance, KeepsShardsWholeWhereThatIsOptimal) {
  const std::vector<SourceGroup> groups = {{.arcs = {0}, .weight = 1}, {.arcs = {0, 1}, .weight = 3}};
  const std::vector<int64_t> capacity = {1, 1};
  const Balance balanced = balance(groups, capacity);
  EXPECT_EQ(balanced.load, Fraction(2));
  EXPECT_EQ(balanced.parts, (std::vector<std::vector<int128>>{{1}, {1, 2}}));
}

TEST(Balance, IsWhatTheWorstSetOfGroupsAndALinearProgramSay) {
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const size_t arcs = 1 + random() % 6, count = 1 + random() % 8;
    const uint64_t most = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 16 : 1'000'000'007;
    std::vector<int64_t> capacity(arcs);
    for (int64_t& c : capacity) c = 1 + static_cast<int64_t>(random() % most);
    std::vector<SourceGroup> groups(count);
    for (SourceGroup& group : groups) {
      const uint64_t set = 1 + random() % ((uint64_t{1} << arcs) - 1);
      for (uint32_t a = 0; a < arcs; ++a) {
        if ((set >> a & 1) != 0) group.arcs.push_back(a);
      }
      group.weight = 1 + static_cast<int64_t>(random() % 9);
    }
    const Balance balanced = balance(groups, capacity);
    EXPECT_EQ(balanced.load, worst_ratio(groups, capacity));
    if (most <= 16) {
      EXPECT_NEAR(balanced.load.to_double(), least_load(groups, capacity), 1e-7);
    }
    expect_parts_fit(balanced, groups, capacity);
  }
}

// Products of weights and capacities beyond 64 bits.
TEST(Balance, IsExactWithTheLargestNumbers) {
  const int64_t large = 1'000'000'000'000'000, weight = int64_t{1} << 40;
  const std::vector<SourceGroup> groups = {{.arcs = {0, 1}, .weight = weight}, {.arcs = {1, 2}, .weight = weight - 1}};
  const std::vector<int64_t> capacity = {large, large - 1, large - 2};
  const Balance balanced = balance(groups, capacity);
  EXPECT_EQ(balanced.load, worst_ratio(groups, capacity));
  expect_parts_fit(balanced, groups, capacity);
}

}  // namespace
}  // namespace banyan::plan
