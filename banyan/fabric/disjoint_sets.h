// Numbers from 0 on in disjoint sets, which are joined: union-find. The lowest number of a set names it.
//
// One thread. Both functions cost a logarithm of the count.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace banyan::fabric {

template <typename Number = uint32_t>
class DisjointSets {
 public:
  explicit DisjointSets(size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), Number{0}); }

  Number find(Number one) {
    while (parent_[one] != one) one = parent_[one] = parent_[parent_[one]];
    return one;
  }
  void join(Number a, Number b) {
    const auto [low, high] = std::minmax({find(a), find(b)});
    parent_[high] = low;
  }

 private:
  std::vector<Number> parent_;
};

}  // namespace banyan::fabric
