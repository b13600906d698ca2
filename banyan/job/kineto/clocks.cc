#include "banyan/job/kineto/clocks.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace banyan::job::kineto {

RankClocks::RankClocks(uint32_t ranks) : offsets_(ranks, 0), clock_(ranks) {
  std::iota(clock_.begin(), clock_.end(), 0);
}

void RankClocks::compare(const MessageChannel& channel) {
  const ChannelMember& first = channel.members.front();
  for (size_t m = 1; m < channel.members.size(); ++m) {
    const ChannelMember& other = channel.members[m];
    std::vector<int64_t>& differences = differences_[{first.draft, other.draft}];
    for (size_t i = 0; i < first.items.size() && differences.size() < 10'000; ++i) {
      differences.push_back(other.items[i].end - first.items[i].end);
    }
  }
}

void RankClocks::settle() {
  std::vector<std::vector<std::pair<uint32_t, int64_t>>> neighbours(clock_.size());
  for (auto& [pair, differences] : differences_) {
    if (differences.empty()) continue;
    const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
    std::nth_element(differences.begin(), middle, differences.end());
    neighbours[pair.first].emplace_back(pair.second, *middle);
    neighbours[pair.second].emplace_back(pair.first, -*middle);
  }
  differences_.clear();
  std::vector<bool> known(clock_.size());
  for (uint32_t root = 0; root < clock_.size(); ++root) {
    if (known[root]) continue;
    known[root] = true;
    std::queue<uint32_t> todo({root});
    for (; !todo.empty(); todo.pop()) {
      const uint32_t at = todo.front();
      for (const auto& [next, difference] : neighbours[at]) {
        if (known[next]) continue;
        known[next] = true;
        clock_[next] = root;
        offsets_[next] = offsets_[at] + difference;
        todo.push(next);
      }
    }
  }
}

void RankClocks::join(uint32_t a, uint32_t b, int64_t offset) {
  const uint32_t from = clock_[b];
  const int64_t move = offset - offsets_[b];
  for (uint32_t rank = 0; rank < clock_.size(); ++rank) {
    if (clock_[rank] != from) continue;
    clock_[rank] = clock_[a];
    offsets_[rank] += move;
  }
}

}  // namespace banyan::job::kineto
