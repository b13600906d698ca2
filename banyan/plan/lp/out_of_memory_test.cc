// One allocation after the other fails while a program is built, solved, added to and solved again: std::bad_alloc must
// come out, and nothing may be freed twice. Leaks are allowed (linear_program.cc), so that leak checkers leave it out.

#include <new>

#include "banyan/plan/lp/linear_program.h"
#include "banyan/testing/test.h"

#ifndef __SANITIZE_ADDRESS__

namespace {

// Allocations until one fails; below 0, none does, or all further ones do as well.
std::atomic<int64_t> allocations_left{-1};
std::atomic<bool> all_further_fail{false}, has_failed{false};

}  // namespace

[[gnu::noinline]] void* operator new(size_t size) {
  if (has_failed && all_further_fail) throw std::bad_alloc();
  if (allocations_left >= 0 && allocations_left-- == 0) {
    has_failed = true;
    throw std::bad_alloc();
  }
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new[](size_t size) { return operator new(size); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace banyan::plan {
namespace {

// A transport problem of 6 sources and 6 sinks, then a cut that its best answer does not keep.
double solve_twice() {
  LinearProgram program;
  int column[6][6];
  for (int i = 0; i < 6; ++i) {
    for (int j = 0; j < 6; ++j) column[i][j] = program.add_column((i * 7 + j * 5) % 11 + 1);
  }
  for (int i = 0; i < 6; ++i) {
    std::vector<LinearProgram::Term> from, to;
    for (int j = 0; j < 6; ++j) {
      from.push_back({.column = column[i][j], .factor = 1});
      to.push_back({.column = column[j][i], .factor = 1});
    }
    program.add_row(from, 0, 3 + i);
    program.add_row(to, 2 + i % 3, LinearProgram::kInfinity);
  }
  int calls = 0;
  program.solve([&] { ++calls; });
  std::vector<LinearProgram::Term> diagonal;
  for (int i = 0; i < 6; ++i) diagonal.push_back({.column = column[i][i], .factor = 1});
  program.add_row(diagonal, 7, LinearProgram::kInfinity);
  program.solve();
  program.change_cost(column[0][0], 20);
  return program.solve().value;
}

class OutOfMemory : public ::testing::TestWithParam<bool> {};

TEST_P(OutOfMemory, NoAllocationThatFailsIsFatal) {
  const double right = solve_twice();
  int64_t failed = 0;
  for (int64_t at = 0;; ++at) {
    ASSERT_LT(at, 100'000) << "allocations never end";
    has_failed = false;
    all_further_fail = GetParam();
    allocations_left = at;
    double value = right;
    bool is_thrown = false;
    try {
      value = solve_twice();
    } catch (const std::bad_alloc&) {
      is_thrown = true;
    }
    allocations_left = -1;
    all_further_fail = false;
    if (!has_failed) break;
    failed += is_thrown;
    EXPECT_EQ(value, right) << "allocation " << at;
  }
  EXPECT_GT(failed, 100);
}

INSTANTIATE_TEST_SUITE_P(LinearProgram, OutOfMemory, ::testing::Bool(),
                         [](const auto& which) { return which.param ? "AllFurtherOnesFail" : "OneFails"; });

}  // namespace
}  // namespace banyan::plan

#endif
