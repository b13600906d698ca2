// The groups behind the generator `cayley`: semidirect products of Z_m by Z_k, whose elements are pairs (a, i) with
//
//     (a, i) (b, j) = (a + r^i b mod m, i + j mod k),        r^k = 1 mod m
//
// With r = 1 it is Z_m x Z_k, with k = 2 and r = m - 1 the dihedral group. An element has the number a + m i; 0 is the
// identity.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/base/check.h"

namespace banyan::fabric {

class SemidirectGroup {
 public:
  // True if there is such a group; m * k must be below 2^32.
  static bool exists(uint64_t m, uint64_t k, uint64_t r) {
    uint64_t power = 1 % m;
    for (uint64_t i = 0; i < k; ++i) power = power * (r % m) % m;
    return power == 1 % m;
  }

  SemidirectGroup(uint64_t m, uint64_t k, uint64_t r) : m_(m), k_(k), power_(k, 1 % m) {
    CHECK(exists(m, k, r));
    for (uint64_t i = 1; i < k; ++i) power_[i] = power_[i - 1] * (r % m) % m;
  }

  uint64_t size() const { return m_ * k_; }
  uint64_t element(uint64_t a, uint64_t i) const { return a + m_ * i; }
  uint64_t multiply(uint64_t x, uint64_t y) const {
    const uint64_t i = x / m_;
    return (x % m_ + power_[i] * (y % m_)) % m_ + m_ * ((i + y / m_) % k_);
  }
  uint64_t inverse(uint64_t x) const {
    const uint64_t i = (k_ - x / m_) % k_;
    return (m_ - power_[i] * (x % m_) % m_) % m_ + m_ * i;
  }

 private:
  uint64_t m_, k_;
  std::vector<uint64_t> power_;  // r^i mod m
};

}  // namespace banyan::fabric
