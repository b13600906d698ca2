// The error for a network that is in several parts. Private to the readers of networks.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/text.h"

namespace banyan::fabric {

struct NetworkPart {
  std::string where;               // "below 'core'"
  std::vector<std::string> ranks;  // at least one
};

// Says how large two or more parts are, and how to leave out the smallest. `network` is "the tree", `rank` "node".
inline Error in_parts(const std::string& network, const std::string& rank, const std::vector<NetworkPart>& parts) {
  constexpr size_t kShown = 4;
  const auto smallest = std::ranges::min_element(parts, {}, [](const NetworkPart& a) { return a.ranks.size(); });
  std::string shown, mend;
  for (size_t i = 0; i < std::min(parts.size(), kShown); ++i) {
    shown += (i > 0 ? ", " : "") + plural(parts[i].ranks.size(), rank) + " " + parts[i].where;
  }
  for (size_t i = 0; i < std::min(smallest->ranks.size(), kShown); ++i) mend += " --remove " + smallest->ranks[i];
  return invalid(network + " is in " + std::to_string(parts.size()) + " parts (" + shown +
                 (parts.size() > kShown ? ", ..." : "") + "); join them by a switch above, or leave one out:" + mend +
                 (smallest->ranks.size() > kShown ? " ..." : ""));
}

}  // namespace banyan::fabric
