#include "banyan/predict/report/link_names.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace banyan::predict::report {

LinkNames::LinkNames(const Fabric* fabric) : fabric_(fabric) {
  if (fabric == nullptr) return;
  const auto links = fabric->links();
  std::vector<uint32_t> order(links.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto ends = [&](uint32_t link) { return std::tuple(links[link].from, links[link].to); };
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return std::tuple(ends(a), a) < std::tuple(ends(b), b); });
  place_.resize(links.size());
  for (size_t i = 1; i < order.size(); ++i) {
    if (ends(order[i]) == ends(order[i - 1])) place_[order[i]] = place_[order[i - 1]] + 1;
  }
}

std::string LinkNames::name(uint32_t link) const {
  if (fabric_ == nullptr) return "link " + std::to_string(link);
  const Link& ends = fabric_->links()[link];
  std::string name = fabric_->name(ends.from) + " -> " + fabric_->name(ends.to);
  if (place_[link] > 0) name += " #" + std::to_string(place_[link] + 1);
  return name;
}

}  // namespace banyan::predict::report
