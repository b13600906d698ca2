// Demand: how much each terminal of a network has for each other one, in whole units.
//
// The amounts of an all-to-all are all alike; those of an all-to-allv are a matrix. A terminal's amount for itself
// crosses no link and counts for nothing. Immutable value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace banyan::plan {

class Demand {
 public:
  static constexpr uint64_t kMostTotal = uint64_t{1} << 62;  // of all amounts, as of shares of a schedule

  // One unit for every pair.
  static Demand uniform(uint32_t terminals) { return Demand(terminals, {}); }
  // Row by row: amounts[source * terminals + target]; empty: uniform. Throws Error{unsupported} when the amounts sum
  // beyond kMostTotal. Their number fits.
  Demand(uint32_t terminals, std::vector<uint64_t> amounts);

  uint32_t terminals() const { return terminals_; }
  bool is_uniform() const { return amounts_.empty(); }
  int64_t of(uint32_t source, uint32_t target) const {
    if (source == target) return 0;
    return amounts_.empty() ? 1 : static_cast<int64_t>(amounts_[size_t{source} * terminals_ + target]);
  }
  int64_t total() const { return total_; }                              // between different terminals
  int64_t out_of(uint32_t source) const { return by_source_[source]; }  // what a source has for all others
  uint64_t pairs() const { return pairs_; }                             // that have something to ship

 private:
  uint32_t terminals_ = 0;
  std::vector<uint64_t> amounts_;
  std::vector<int64_t> by_source_;
  int64_t total_ = 0;
  uint64_t pairs_ = 0;
};

}  // namespace banyan::plan
