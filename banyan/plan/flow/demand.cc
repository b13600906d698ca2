#include "banyan/plan/flow/demand.h"

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::plan {

Demand::Demand(uint32_t terminals, std::vector<uint64_t> amounts)
    : terminals_(terminals), amounts_(std::move(amounts)), by_source_(terminals, 0) {
  CHECK(amounts_.empty() || amounts_.size() == size_t{terminals} * terminals) << amounts_.size();
  uint64_t total = 0;
  for (uint32_t s = 0; s < terminals; ++s) {
    for (uint32_t t = 0; t < terminals; ++t) {
      // One amount alone may be too much for the sum.
      if (s != t && !amounts_.empty() && amounts_[size_t{s} * terminals + t] > kMostTotal) total = kMostTotal + 1;
      if (total > kMostTotal) break;
      const int64_t amount = of(s, t);
      by_source_[s] += amount;
      total += static_cast<uint64_t>(amount);
      pairs_ += amount > 0;
    }
  }
  if (total > kMostTotal) {
    throw Error(ErrorCode::unsupported,
                "the amounts of the traffic matrix sum to more than 2^62; count in larger units");
  }
  total_ = static_cast<int64_t>(total);
}

}  // namespace banyan::plan
