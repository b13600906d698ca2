#include "banyan/predict/codes/option_choice.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

constexpr int kMostRounds = 16;
// Less is rounding.
constexpr double kGain = 1e-9;

class Search {
 public:
  Search(std::span<const GradientBucket> buckets, std::span<const BucketOption> options)
      : buckets_(buckets), options_(options), order_(buckets.size()) {
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::ranges::stable_sort(order_, std::greater(), [&](size_t i) { return std::pair(buckets_[i].bytes, i); });
  }

  OptionChoice from(std::vector<uint32_t> choice) const {
    double best = seconds(choice);
    for (int round = 0; round < kMostRounds; ++round) {
      bool has_changed = false;
      for (const size_t bucket : order_) {
        if (walk_buckets(buckets_, options_, choice).is_hidden[bucket] && choice[bucket] == 0) continue;
        const uint32_t before = choice[bucket];
        uint32_t kept = before;
        for (uint32_t option = 0; option < options_.size(); ++option) {
          choice[bucket] = option;
          const double tried = seconds(choice);
          if (tried < best * (1 - kGain)) {
            best = tried;
            kept = option;
          }
        }
        choice[bucket] = kept;
        has_changed |= kept != before;
      }
      if (!has_changed) break;
    }
    return {.options = std::move(choice), .seconds = best};
  }

 private:
  double seconds(const std::vector<uint32_t>& choice) const { return walk_buckets(buckets_, options_, choice).seconds; }

  const std::span<const GradientBucket> buckets_;
  const std::span<const BucketOption> options_;
  std::vector<size_t> order_;
};

}  // namespace

OptionChoice choose_options(std::span<const GradientBucket> buckets, std::span<const BucketOption> options) {
  CHECK(!options.empty());
  const Search search(buckets, options);
  OptionChoice best;
  for (uint32_t option = 0; option < options.size(); ++option) {
    OptionChoice found = search.from(std::vector<uint32_t>(buckets.size(), option));
    if (option == 0 || found.seconds < best.seconds * (1 - kGain)) best = std::move(found);
  }
  return best;
}

}  // namespace banyan::predict
