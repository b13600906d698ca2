#include "banyan/plan/forest/shortest_paths.h"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace banyan::plan {
namespace {

constexpr uint16_t kFar = UINT16_MAX;
constexpr uint16_t kSplit = UINT16_MAX;
constexpr uint32_t kNone = UINT32_MAX;

// A square of numbers, which is written row by row and read column by column.
class Square {
 public:
  explicit Square(uint32_t side) : side_(side), cells_(size_t{side} * side) {}
  std::span<uint16_t> row(uint32_t i) { return std::span(cells_).subspan(size_t{i} * side_, side_); }
  std::span<const uint16_t> row(uint32_t i) const { return std::span(cells_).subspan(size_t{i} * side_, side_); }

  // Columns in ascending order: some are taken at a time, since they lie side by side.
  class Columns {
   public:
    explicit Columns(const Square& square) : square_(square), taken_(size_t{square.side_} * kAtATime) {}
    std::span<const uint16_t> next() {
      const uint32_t place = at_++ % kAtATime;
      if (place == 0) take();
      return std::span(taken_).subspan(size_t{place} * square_.side_, square_.side_);
    }

   private:
    static constexpr uint32_t kAtATime = 32;
    // Rows lie one after the other, so a column alone would touch a line of the cache for every number. Some columns at
    // a time use what a line holds.
    void take() {
      const uint32_t first = at_ - 1, count = std::min(kAtATime, square_.side_ - first);
      for (uint32_t i = 0; i < square_.side_; ++i) {
        const std::span row = square_.row(i).subspan(first, count);
        for (uint32_t c = 0; c < count; ++c) taken_[size_t{c} * square_.side_ + i] = row[c];
      }
    }

    const Square& square_;
    uint32_t at_ = 0;
    std::vector<uint16_t> taken_;
  };

 private:
  uint32_t side_;
  std::vector<uint16_t> cells_;
};

// The part of a root's units that a receiver gets over one of its in-arcs, where it gets them over several.
struct Portion {
  uint32_t root = 0, receiver = 0;
  uint16_t bin = 0;  // which of the receiver's in-arcs
  int64_t units = 0;
};

// What every receiver gets from every root.
struct Shares {
  Square bin;                          // by receiver and root: the in-arc for all units, or kSplit
  std::vector<Portion> portions = {};  // by root, then by receiver
};

// Splits supply[root] units of every root over the in-arcs of one receiver. Bins are few (the in-degree), so augmenting
// paths are searched between bins: a unit of some root moves from a full bin to another that the root may use.
class Receiver {
 public:
  // `allowed`: by root and bin, whether the root may use it.
  Receiver(std::span<const int64_t> room, std::span<const uint8_t> allowed, std::vector<int64_t>& amount)
      : room_(room.begin(), room.end()), allowed_(allowed), amount_(amount) {
    amount_.assign(allowed.size(), 0);
  }

  // False when the units do not fit.
  bool split(std::span<const int64_t> supply) {
    for (uint32_t root = 0; root < supply.size(); ++root) {
      for (int64_t need = supply[root]; need > 0;) {
        const int64_t placed = place(root, need);
        if (placed == 0) return false;
        need -= placed;
      }
    }
    return true;
  }

  int64_t amount(uint32_t root, size_t bin) const { return amount_[root * room_.size() + bin]; }

 private:
  int64_t& held(uint32_t root, size_t bin) { return amount_[root * room_.size() + bin]; }
  bool is_allowed(uint32_t root, size_t bin) const { return allowed_[root * room_.size() + bin] != 0; }

  // Puts up to `need` units of the root into the emptiest bin it may use, or makes room by moving another root's units.
  int64_t place(uint32_t root, int64_t need) {
    const uint32_t bins = static_cast<uint32_t>(room_.size());
    uint32_t best = kNone;
    for (uint32_t bin = 0; bin < bins; ++bin) {
      if (is_allowed(root, bin) && room_[bin] > 0 && (best == kNone || room_[bin] > room_[best])) best = bin;
    }
    // All bins of the root are full.
    if (best == kNone) return move_others(root, need);
    const int64_t units = std::min(need, room_[best]);
    room_[best] -= units;
    held(root, best) += units;
    return units;
  }

  int64_t move_others(uint32_t root, int64_t need) {
    const uint32_t bins = static_cast<uint32_t>(room_.size());
    // A search for an augmenting path between bins, breadth first from those that the root may use.
    mover_.assign(bins, kNone);
    from_.assign(bins, kNone);
    seen_.assign(bins, 0);
    queue_.clear();
    uint32_t best = kNone;
    for (uint32_t bin = 0; bin < bins; ++bin) {
      if (!is_allowed(root, bin)) continue;
      seen_[bin] = 1;
      queue_.push_back(bin);
    }
    for (size_t i = 0; i < queue_.size() && best == kNone; ++i) {
      // Some root that has units here may use another bin: those units could move there. Only roots up to this one have
      // units.
      const uint32_t full = queue_[i];
      for (uint32_t other = 0; other <= root && best == kNone; ++other) {
        if (held(other, full) == 0) continue;
        for (uint32_t bin = 0; bin < bins; ++bin) {
          if (seen_[bin] || !is_allowed(other, bin)) continue;
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
    if (best == kNone) return 0;
    // As many units move as the scarcest step of the path bears.
    int64_t units = std::min(need, room_[best]);
    for (uint32_t bin = best; from_[bin] != kNone; bin = from_[bin])
      units = std::min(units, held(mover_[bin], from_[bin]));
    room_[best] -= units;
    // Each root along the path moves on to the next bin; the first bin has room for the new units then.
    uint32_t bin = best;
    for (; from_[bin] != kNone; bin = from_[bin]) {
      held(mover_[bin], bin) += units;
      held(mover_[bin], from_[bin]) -= units;
    }
    held(root, bin) += units;
    return units;
  }

  std::vector<int64_t> room_;
  std::span<const uint8_t> allowed_;
  std::vector<int64_t>& amount_;                // by root and bin; lent, to be used again
  std::vector<uint32_t> mover_, from_, queue_;  // scratch of move_others()
  std::vector<uint8_t> seen_;
};

// From every root to `to`; false when one of them does not reach it.
bool find_distances(const Network& network, std::span<const int64_t> capacity, uint32_t to,
                    std::span<uint16_t> distance, std::vector<uint32_t>& queue) {
  std::ranges::fill(distance, kFar);
  queue.assign(1, to);
  distance[to] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const uint32_t a : network.in_arcs(queue[i])) {
      const uint32_t next = network.arcs()[a].tail;
      if (capacity[a] == 0 || distance[next] != kFar) continue;
      distance[next] = static_cast<uint16_t>(distance[queue[i]] + 1);
      queue.push_back(next);
    }
  }
  return queue.size() == distance.size();
}

// Nothing when some root does not reach some receiver.
std::optional<Square> all_distances(const Network& network, std::span<const int64_t> capacity) {
  Square distance(network.terminal_count());
  std::vector<uint32_t> queue;
  for (uint32_t t = 0; t < network.terminal_count(); ++t) {
    if (!find_distances(network, capacity, t, distance.row(t), queue)) return std::nullopt;
  }
  return distance;
}

// Nothing when the units of some receiver do not fit. `distance` by receiver and root.
std::optional<Shares> share_out(const Network& network, std::span<const int64_t> capacity,
                                std::span<const int64_t> supply, const Square& distance) {
  const uint32_t terminals = network.terminal_count();
  Shares shares{.bin = Square(terminals), .portions = {}};
  std::vector<int64_t> room, amount, needs(supply.begin(), supply.end());
  std::vector<uint8_t> allowed;
  for (uint32_t t = 0; t < terminals; ++t) {
    const std::span arcs = network.in_arcs(t);
    const size_t bins = arcs.size();
    // A root may use those in-arcs that come from one hop nearer to it: any choice of them is a tree, as low as
    // possible.
    room.clear();
    for (const uint32_t a : arcs) room.push_back(capacity[a]);
    allowed.assign(terminals * bins, 0);
    for (size_t b = 0; b < bins; ++b) {
      if (room[b] == 0) continue;
      const std::span here = distance.row(t), before = distance.row(network.arcs()[arcs[b]].tail);
      for (uint32_t root = 0; root < terminals; ++root) allowed[root * bins + b] = before[root] + 1 == here[root];
    }
    // The receiver's transport problem stands alone: no other receiver uses its in-arcs.
    needs[t] = 0;
    Receiver receiver(room, allowed, amount);
    if (!receiver.split(needs)) return std::nullopt;
    needs[t] = supply[t];
    for (uint32_t root = 0; root < terminals; ++root) {
      // Most roots send all units over one in-arc, which is a number. Only the others need portions.
      const auto used = [&](size_t b) { return receiver.amount(root, b) > 0; };
      uint16_t& bin = shares.bin.row(t)[root];
      for (uint16_t b = 0; b < bins; ++b) {
        if (used(b)) bin = b;
      }
      if (root == t || supply[root] == 0 || receiver.amount(root, bin) == supply[root]) continue;
      bin = kSplit;
      for (uint16_t b = 0; b < bins; ++b) {
        if (used(b))
          shares.portions.push_back({.root = root, .receiver = t, .bin = b, .units = receiver.amount(root, b)});
      }
    }
  }
  std::ranges::stable_sort(shares.portions, {}, &Portion::root);
  return shares;
}

// The units of a root are cut into trees where the parent of any receiver changes.
class ShortestPathTrees : public TreeSource {
 public:
  ShortestPathTrees(const Network& network, std::span<const int64_t> supply, Square distance, Shares shares)
      : supply_(supply.begin(), supply.end()), distance_(std::move(distance)), shares_(std::move(shares)) {
    number_paths(network);
    find_cuts();
    for (uint32_t t = 0; t < supply_.size(); ++t) {
      for (uint32_t root = 0; root < supply_.size(); ++root) {
        if (supply_[root] > 0) height_ = std::max<uint32_t>(height_, distance_.row(t)[root]);
      }
    }
  }

  Sizes sizes() const override {
    return {.paths = arcs_.size(),
            .path_arcs = arcs_.size(),
            .trees = cuts_.size(),
            .edges = cuts_.size() * (supply_.size() - 1)};
  }

  uint32_t height() const override { return height_; }

  void visit_paths(const std::function<void(Path)>& visit) const override {
    for (const uint32_t& arc : arcs_) visit(std::span(&arc, 1));
  }

  void visit_trees(const std::function<void(const Tree&)>& visit) override {
    Square::Columns distances(distance_), bins(shares_.bin);
    auto cut = cuts_.begin();
    auto portion = shares_.portions.begin();
    for (uint32_t root = 0; root < supply_.size(); ++root) {
      const std::span distance = distances.next(), bin = bins.next();
      const auto is_other = [root](const auto& row) { return row.root != root; };
      const auto cuts_end = std::find_if(cut, cuts_.end(), is_other);
      const auto portions_end = std::find_if(portion, shares_.portions.end(), is_other);
      if (cut != cuts_end) visit_trees_of(root, distance, bin, {cut, cuts_end}, {portion, portions_end}, visit);
      cut = cuts_end;
      portion = portions_end;
    }
  }

 private:
  // Where a tree ends: so many units of the root's are in it and those before it.
  struct Cut {
    uint32_t root = 0;
    int64_t end = 0;
    auto operator<=>(const Cut&) const = default;
  };

  void number_paths(const Network& network) {
    const uint32_t terminals = network.terminal_count();
    // Every in-arc that some tree uses is a path of one arc, numbered by receiver.
    std::vector<uint8_t> used;
    for (uint32_t t = 0; t < terminals; ++t) {
      first_bin_.push_back(static_cast<uint32_t>(used.size()));
      used.resize(used.size() + network.in_arcs(t).size(), 0);
      for (uint32_t root = 0; root < terminals; ++root) {
        const uint16_t bin = shares_.bin.row(t)[root];
        if (bin != kSplit && root != t && supply_[root] > 0) used[first_bin_[t] + bin] = 1;
      }
    }
    for (const Portion& portion : shares_.portions) used[first_bin_[portion.receiver] + portion.bin] = 1;
    path_.assign(used.size(), kNone);
    for (uint32_t t = 0; t < terminals; ++t) {
      for (uint32_t b = 0; b < network.in_arcs(t).size(); ++b) {
        if (!used[first_bin_[t] + b]) continue;
        path_[first_bin_[t] + b] = static_cast<uint32_t>(arcs_.size());
        arcs_.push_back(network.in_arcs(t)[b]);
      }
    }
  }

  void find_cuts() {
    for (uint32_t root = 0; root < supply_.size(); ++root) {
      if (supply_[root] > 0) cuts_.push_back({.root = root, .end = supply_[root]});
    }
    // Units of a root are in the same order for all receivers. A tree ends where some receiver changes its parent, so
    // the ends of all portions are cuts.
    int64_t end = 0;
    for (const Portion& portion : shares_.portions) {
      end += portion.units;
      cuts_.push_back({.root = portion.root, .end = end});
      if (end == supply_[portion.root]) end = 0;  // of this receiver
    }
    std::ranges::sort(cuts_);
    cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  }

  void visit_trees_of(uint32_t root, std::span<const uint16_t> distance, std::span<const uint16_t> bin,
                      std::span<const Cut> cuts, std::span<const Portion> portions,
                      const std::function<void(const Tree&)>& visit) {
    // Parents before children: receivers in the order of their distance. Those with one parent are the same in all
    // trees.
    order_by(distance);
    parent_path_.resize(bin.size());
    for (uint32_t t = 0; t < bin.size(); ++t)
      parent_path_[t] = bin[t] == kSplit ? kNone : path_[first_bin_[t] + bin[t]];
    Tree tree{.root = root, .units = 0, .height = distance[order_.back()], .paths = {}};
    int64_t begin = 0;
    for (const Cut& cut : cuts) {
      // Receivers with several parents take the one whose portion holds this tree's units.
      int64_t portion_end = 0;
      for (const Portion& portion : portions) {
        portion_end += portion.units;
        // Of the portions of a receiver the one that holds the units from `begin` on.
        if (portion_end > begin && portion_end - portion.units <= begin)
          parent_path_[portion.receiver] = path_[first_bin_[portion.receiver] + portion.bin];
        if (portion_end == supply_[root]) portion_end = 0;
      }
      paths_.clear();
      for (size_t i = 1; i < order_.size(); ++i) paths_.push_back(parent_path_[order_[i]]);
      tree.units = cut.end - begin;
      tree.paths = paths_;
      visit(tree);
      begin = cut.end;
    }
  }

  // Counting sort.
  void order_by(std::span<const uint16_t> distance) {
    at_.assign(size_t{*std::ranges::max_element(distance)} + 2, 0);
    for (const uint16_t d : distance) ++at_[d + 1];
    for (size_t d = 1; d < at_.size(); ++d) at_[d] += at_[d - 1];
    order_.resize(distance.size());
    for (uint32_t t = 0; t < distance.size(); ++t) order_[at_[distance[t]]++] = t;
  }

  const std::vector<int64_t> supply_;
  const Square distance_;  // by receiver and root
  const Shares shares_;
  uint32_t height_ = 0;
  std::vector<Cut> cuts_;
  std::vector<uint32_t> arcs_;                              // by path
  std::vector<uint32_t> first_bin_;                         // by receiver, into path_
  std::vector<uint32_t> path_;                              // by receiver and bin
  std::vector<uint32_t> order_, at_, parent_path_, paths_;  // scratch of visit_trees()
};

}  // namespace

std::unique_ptr<TreeSource> pack_along_shortest_paths(const Network& network, std::span<const int64_t> capacity,
                                                      std::span<const int64_t> supply) {
  const uint32_t terminals = network.terminal_count();
  if (network.vertex_count() != terminals || terminals >= kFar) return nullptr;
  std::optional<Square> distance = all_distances(network, capacity);
  if (!distance) return nullptr;
  std::optional<Shares> shares = share_out(network, capacity, supply, *distance);
  if (!shares) return nullptr;
  return std::make_unique<ShortestPathTrees>(network, supply, std::move(*distance), std::move(*shares));
}

}  // namespace banyan::plan
