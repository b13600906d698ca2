#include "banyan/plan/forest/shortest_paths.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace banyan::plan {
namespace {

constexpr uint32_t kFar = UINT32_MAX;

// What one receiver gets from one root over one of its in-arcs.
struct Portion {
  uint32_t arc = 0;
  int64_t units = 0;
};

// What one receiver gets from every root: of root r, portions start[r] to start[r + 1].
struct Shares {
  std::vector<uint32_t> start;
  std::vector<Portion> portions;
  std::span<const Portion> of(uint32_t root) const {
    return std::span(portions).subspan(start[root], start[root + 1] - start[root]);
  }
};

// Splits supply[root] units of every root over the in-arcs of one receiver. Bins are few (the in-degree), so augmenting
// paths are searched between bins: a unit of some root moves from a full bin to another that the root may use.
class Receiver {
 public:
  Receiver(std::span<const uint32_t> arcs, std::span<const int64_t> room)
      : arcs_(arcs), room_(room.begin(), room.end()) {}

  // `allowed`: by root and bin, whether the root may use it. Returns false when the units do not fit.
  bool split(std::span<const uint8_t> allowed, std::span<const int64_t> supply) {
    amount_.assign(allowed.size(), 0);
    for (uint32_t root = 0; root < supply.size(); ++root) {
      for (int64_t need = supply[root]; need > 0;) {
        const int64_t placed = place(root, need, allowed);
        if (placed == 0) return false;
        need -= placed;
      }
    }
    return true;
  }

  // What the receiver gets, root after root.
  Shares shares(size_t roots) const {
    Shares result;
    for (uint32_t root = 0; root < roots; ++root) {
      result.start.push_back(static_cast<uint32_t>(result.portions.size()));
      for (uint32_t bin = 0; bin < arcs_.size(); ++bin) {
        if (amount(root, bin) > 0) result.portions.push_back({.arc = arcs_[bin], .units = amount(root, bin)});
      }
    }
    result.start.push_back(static_cast<uint32_t>(result.portions.size()));
    result.portions.shrink_to_fit();
    return result;
  }

 private:
  int64_t& amount(uint32_t root, size_t bin) { return amount_[root * arcs_.size() + bin]; }
  int64_t amount(uint32_t root, size_t bin) const { return amount_[root * arcs_.size() + bin]; }

  // Puts up to `need` units of the root into the emptiest bin it may use, or makes room by moving another root's units.
  int64_t place(uint32_t root, int64_t need, std::span<const uint8_t> allowed) {
    const size_t bins = arcs_.size();
    mover_.assign(bins, kFar);
    from_.assign(bins, kFar);
    queue_.clear();
    seen_.assign(bins, 0);
    uint32_t best = kFar;
    for (uint32_t bin = 0; bin < bins; ++bin) {
      if (!allowed[root * bins + bin]) continue;
      seen_[bin] = 1;
      queue_.push_back(bin);
      if (room_[bin] > 0 && (best == kFar || room_[bin] > room_[best])) best = bin;
    }
    for (size_t i = 0; i < queue_.size() && best == kFar; ++i) {
      const uint32_t full = queue_[i];
      for (uint32_t other = 0; other <= root && best == kFar; ++other) {
        if (amount(other, full) == 0) continue;
        for (uint32_t bin = 0; bin < bins; ++bin) {
          if (seen_[bin] || !allowed[other * bins + bin]) continue;
          seen_[bin] = 1;
          mover_[bin] = other;
          from_[bin] = full;
          queue_.push_back(bin);
          if (room_[bin] > 0) {
            best = bin;
            break;
          }
        }
      }
    }
    if (best == kFar) return 0;
    int64_t units = std::min(need, room_[best]);
    for (uint32_t bin = best; from_[bin] != kFar; bin = from_[bin])
      units = std::min(units, amount(mover_[bin], from_[bin]));
    room_[best] -= units;
    uint32_t bin = best;
    for (; from_[bin] != kFar; bin = from_[bin]) {
      amount(mover_[bin], bin) += units;
      amount(mover_[bin], from_[bin]) -= units;
    }
    amount(root, bin) += units;
    return units;
  }

  std::span<const uint32_t> arcs_;
  std::vector<int64_t> room_;
  std::vector<int64_t> amount_;                 // by root and bin
  std::vector<uint32_t> mover_, from_, queue_;  // scratch of place()
  std::vector<uint8_t> seen_;
};

std::vector<uint32_t> distances_from(const Network& network, std::span<const int64_t> capacity, uint32_t root) {
  std::vector<uint32_t> distance(network.vertex_count(), kFar), queue{root};
  distance[root] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const uint32_t a : network.out_arcs(queue[i])) {
      const uint32_t next = network.arcs()[a].head;
      if (capacity[a] == 0 || distance[next] != kFar) continue;
      distance[next] = distance[queue[i]] + 1;
      queue.push_back(next);
    }
  }
  return distance;
}

// Cuts the units of one root into trees: from one breakpoint of any receiver's shares to the next, parents stay the
// same.
void cut_into_trees(const Network& network, uint32_t root, int64_t supply, const std::vector<uint32_t>& distance,
                    const std::vector<Shares>& shares, Packing& packing) {
  std::vector<uint32_t> order(network.terminal_count());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return distance[a] < distance[b]; });
  std::vector<size_t> at(shares.size(), 0);
  std::vector<int64_t> left(shares.size(), 0);
  for (uint32_t t = 0; t < shares.size(); ++t)
    left[t] = shares[t].of(root).empty() ? supply : shares[t].of(root).front().units;
  while (supply > 0) {
    PackedTree tree{
        .root = root, .units = *std::min_element(left.begin(), left.end()), .height = distance[order.back()]};
    tree.paths.reserve(order.size() - 1);
    for (const uint32_t t : order) {
      if (t == root) continue;
      const std::span portions = shares[t].of(root);
      const uint32_t arc = portions[at[t]].arc;
      tree.paths.push_back(packing.paths.intern(std::span(&arc, 1)));
      left[t] -= tree.units;
      if (left[t] == 0 && ++at[t] < portions.size()) left[t] = portions[at[t]].units;
    }
    supply -= tree.units;
    left[root] = std::numeric_limits<int64_t>::max();
    packing.trees.push_back(std::move(tree));
  }
}

}  // namespace

std::unique_ptr<TreeSource> pack_along_shortest_paths(const Network& network, std::span<const int64_t> capacity,
                                                      std::span<const int64_t> supply) {
  const uint32_t terminals = network.terminal_count();
  if (network.vertex_count() != terminals) return nullptr;
  std::vector<std::vector<uint32_t>> distance;
  for (uint32_t root = 0; root < terminals; ++root) {
    distance.push_back(distances_from(network, capacity, root));
    if (*std::max_element(distance.back().begin(), distance.back().end()) == kFar) return nullptr;
  }
  std::vector<Shares> shares;  // by receiver
  std::vector<uint8_t> allowed;
  for (uint32_t t = 0; t < terminals; ++t) {
    const std::span arcs = network.in_arcs(t);
    std::vector<int64_t> room, needs(supply.begin(), supply.end());
    for (const uint32_t a : arcs) room.push_back(capacity[a]);
    needs[t] = 0;
    allowed.assign(size_t{terminals} * arcs.size(), 0);
    for (uint32_t root = 0; root < terminals; ++root) {
      for (uint32_t bin = 0; bin < arcs.size(); ++bin) {
        allowed[root * arcs.size() + bin] =
            capacity[arcs[bin]] > 0 && distance[root][network.arcs()[arcs[bin]].tail] + 1 == distance[root][t];
      }
    }
    Receiver receiver(arcs, room);
    if (!receiver.split(allowed, needs)) return nullptr;
    shares.push_back(receiver.shares(terminals));
  }
  Packing packing;
  for (uint32_t root = 0; root < terminals; ++root) {
    if (supply[root] > 0) cut_into_trees(network, root, supply[root], distance[root], shares, packing);
  }
  return hand_over(std::move(packing));
}

}  // namespace banyan::plan
