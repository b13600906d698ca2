// Inside of banyan/sparse: the loops behind selection.h, for a Machine with
//
//   static constexpr size_t kLanes;
//   using Floats = ...;
//   static Floats load(const float* from);
//   static void store(float* to, Floats values);
//   static Floats add(Floats a, Floats b);
//   static uint32_t at_least(Floats values, uint32_t least);  // bit i: the magnitude of lane i is at least so great
//   static Floats kept(Floats sum, Floats residual);          // see FilterTask
//   static void append(uint32_t* rows, float* sums, Floats values, uint32_t first, uint32_t mask);  // may write kLanes
//
// In an unnamed namespace for the reason that element/vectors.h tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "banyan/sparse/selection_kernels.h"

namespace banyan::sparse::internal {
namespace {

constexpr uint32_t kMagnitudeBits = 0x7fffffff, kInfinityBits = 0x7f800000;

[[gnu::always_inline]] inline uint32_t magnitude_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits & kMagnitudeBits;
}

// One lane: any machine, and what is left over at the end.
struct OneLane {
  static constexpr size_t kLanes = 1;
  using Floats = float;
  [[gnu::always_inline]] static float load(const float* from) { return *from; }
  [[gnu::always_inline]] static void store(float* to, float value) { *to = value; }
  [[gnu::always_inline]] static float add(float a, float b) { return a + b; }
  [[gnu::always_inline]] static uint32_t at_least(float value, uint32_t least) { return magnitude_of(value) >= least; }
  [[gnu::always_inline]] static float kept(float sum, float residual) {
    if (magnitude_of(sum) < kInfinityBits) return sum;
    return magnitude_of(residual) < kInfinityBits ? residual : 0;
  }
  [[gnu::always_inline]] static void append(uint32_t* rows, float* sums, float value, uint32_t first, uint32_t) {
    *rows = first;
    *sums = value;
  }
};

template <typename Machine, bool kHasResidual>
[[gnu::always_inline]] inline size_t filter_from(const FilterTask& task, size_t begin, size_t end, size_t found) {
  for (size_t i = begin; i < end; i += Machine::kLanes) {
    auto sum = Machine::load(task.values + i);
    if constexpr (kHasResidual) {
      const auto residual = Machine::load(task.residual + i);
      sum = Machine::add(sum, residual);
      Machine::store(task.residual + i, Machine::kept(sum, residual));
    }
    const uint32_t mask = Machine::at_least(sum, task.least);
    // Also where none is: a branch that is taken now and then costs more.
    Machine::append(task.rows + found, task.sums + found, sum, task.first + static_cast<uint32_t>(i), mask);
    found += static_cast<size_t>(Machine::kLanes > 1 ? __builtin_popcount(mask) : static_cast<int>(mask));
  }
  return found;
}

template <typename Machine, bool kHasResidual>
size_t filter_all(const FilterTask& task) {
  const size_t whole = task.count / Machine::kLanes * Machine::kLanes;
  const size_t found = filter_from<Machine, kHasResidual>(task, 0, whole, 0);
  return filter_from<OneLane, kHasResidual>(task, whole, task.count, found);
}

template <typename Machine>
size_t filter(const FilterTask& task) {
  return task.residual == nullptr ? filter_all<Machine, false>(task) : filter_all<Machine, true>(task);
}

}  // namespace
}  // namespace banyan::sparse::internal
