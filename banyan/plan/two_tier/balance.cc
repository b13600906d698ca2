#include "banyan/plan/two_tier/balance.h"

#include <algorithm>

namespace banyan::plan {

BoxBalance::BoxBalance(uint32_t gpus)
    : gpus_(gpus), held_(gpus), surplus_(gpus), lack_(gpus), given_(size_t{gpus} * gpus) {
  givers_.reserve(gpus);
  takers_.reserve(gpus);
}

uint64_t BoxBalance::add_moves(const uint64_t* bytes, size_t stride, std::vector<TwoTierMove>& moves) {
  uint64_t all = 0;
  for (uint32_t gpu = 0; gpu < gpus_; ++gpu) {
    uint64_t sum = 0;
    for (uint32_t target = 0; target < gpus_; ++target) sum += bytes[gpu * stride + target];
    held_[gpu] = sum;
    all += sum;
  }
  const uint64_t share = all / gpus_, more = all % gpus_;
  givers_.clear();
  takers_.clear();
  for (uint32_t gpu = 0; gpu < gpus_; ++gpu) {
    const uint64_t due = share + (gpu < more ? 1 : 0);
    if (held_[gpu] > due) {
      surplus_[gpu] = held_[gpu] - due;
      givers_.push_back(static_cast<uint16_t>(gpu));
    } else if (held_[gpu] < due) {
      lack_[gpu] = due - held_[gpu];
      takers_.push_back(static_cast<uint16_t>(gpu));
    }
  }
  if (givers_.empty()) return all;
  give_to_targets(bytes, stride, moves);
  give_the_rest(bytes, stride, moves);
  return all;
}

void BoxBalance::give_to_targets(const uint64_t* bytes, size_t stride, std::vector<TwoTierMove>& moves) {
  for (const uint16_t from : givers_) {
    uint64_t* given = &given_[size_t{from} * gpus_];
    std::fill_n(given, gpus_, 0);
    for (const uint16_t to : takers_) {
      const uint64_t part = std::min({bytes[from * stride + to], surplus_[from], lack_[to]});
      if (part == 0) continue;
      given[to] = part;
      surplus_[from] -= part;
      lack_[to] -= part;
      moves.push_back({.bytes = part, .from = from, .to = to, .target = to});
    }
  }
}

void BoxBalance::give_the_rest(const uint64_t* bytes, size_t stride, std::vector<TwoTierMove>& moves) {
  auto taker = takers_.begin();
  for (const uint16_t from : givers_) {
    uint64_t* given = &given_[size_t{from} * gpus_];
    for (uint32_t target = from; surplus_[from] > 0;) {
      target = target == 0 ? gpus_ - 1 : target - 1;
      while (surplus_[from] > 0 && given[target] < bytes[from * stride + target]) {
        while (lack_[*taker] == 0) ++taker;
        const uint64_t part = std::min({bytes[from * stride + target] - given[target], surplus_[from], lack_[*taker]});
        given[target] += part;
        surplus_[from] -= part;
        lack_[*taker] -= part;
        moves.push_back({.bytes = part, .from = from, .to = *taker, .target = static_cast<uint16_t>(target)});
      }
    }
  }
}

}  // namespace banyan::plan
