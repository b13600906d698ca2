// What bench/published_ratios.py asks of banyan/predict/codes: how a list of gradient tensors is best cut into
// buckets, and which of them are coded.
//
//   gradient_cuts < INPUT
//
// INPUT: a line for each way, the first that of buckets which gain by none: NAME ENCODE_FIXED LINK_FIXED LINK_PER_BYTE,
// of the backward pass and of the link; seconds, bytes of gradients. `tensors`. Then a line for each tensor, in the
// order of the backward pass: BYTES SECONDS until it is there. The cuts are those that are best for any one way for all
// (bucket_cuts.h), the ways of the buckets those of option_choice.h. Output: a line for each bucket: TENSORS NAME; the
// last: `seconds S`.
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "banyan/predict/codes/bucket_cuts.h"
#include "banyan/predict/codes/option_choice.h"

int main() {
  using namespace banyan::predict;
  std::vector<CutCosts> costs;
  std::vector<BucketOption> options;
  std::vector<GradientBucket> tensors;
  bool are_tensors = false;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    if (line == "tensors") {
      are_tensors = true;
    } else if (are_tensors) {
      words >> tensors.emplace_back().bytes >> tensors.back().backward;
    } else {
      CutCosts cost;
      std::string name;
      words >> name >> cost.encode_fixed >> cost.link_fixed >> cost.link_per_byte;
      options.push_back({name,
                         {{.resource = kBackwardPass, .fixed = cost.encode_fixed, .per_byte = 0},
                          {.resource = 1, .fixed = cost.link_fixed, .per_byte = cost.link_per_byte}}});
      costs.push_back(cost);
    }
    if (words.fail()) return std::fprintf(stderr, "gradient_cuts: cannot read '%s'\n", line.c_str()), 2;
  }
  if (options.empty() || tensors.empty()) return std::fprintf(stderr, "gradient_cuts: no ways, or no tensors\n"), 2;
  OptionChoice best;
  std::vector<uint32_t> best_sizes;
  for (const CutCosts& cost : costs) {
    const std::vector<uint32_t> sizes = cut_buckets(tensors, cost).sizes;
    OptionChoice choice = choose_options(joined(tensors, sizes), options);
    if (!best_sizes.empty() && choice.seconds >= best.seconds) continue;
    best = std::move(choice);
    best_sizes = sizes;
  }
  for (size_t i = 0; i < best_sizes.size(); ++i)
    std::printf("%u %s\n", best_sizes[i], options[best.options[i]].name.c_str());
  std::printf("seconds %.9f\n", best.seconds);
}
