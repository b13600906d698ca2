#include "banyan/design/cayley_search.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <random>

#include "banyan/base/check.h"
#include "banyan/fabric/semidirect_group.h"
#include "banyan/plan/direct/balance.h"

namespace banyan::design {
namespace {

constexpr uint64_t kSeed = 2024;
constexpr uint64_t kMostTries = 200'000;

struct Parameters {
  uint64_t m = 0, k = 0, r = 0;
};

// All groups of that many elements that the family has, up to the names of their parameters.
std::vector<Parameters> groups_of(uint64_t size) {
  std::vector<Parameters> groups;
  for (uint64_t k = 1; k < size; ++k) {
    if (size % k != 0) continue;
    const uint64_t m = size / k;
    for (uint64_t r = 1; r < std::max<uint64_t>(m, 2); ++r) {
      // With k = 1 r means nothing: the group is cyclic.
      if (k == 1 && r > 1) break;
      if (fabric::SemidirectGroup::exists(m, k, r)) groups.push_back({.m = m, .k = k, .r = r});
    }
  }
  return groups;
}

// What one rank is told by a breadth-first search: over which of its links each rank's shard may come.
class RankView {
 public:
  RankView(uint64_t ranks, uint64_t degree) : mask_(ranks), distance_(ranks), degree_(degree) {}

  // next[d * ranks + x] is the neighbour of x by element d. Nothing where more than `most` steps are needed.
  std::optional<uint32_t> search(const std::vector<uint32_t>& next, uint32_t most) {
    const size_t ranks = mask_.size();
    // A mask says by which links of rank 0 the shortest paths to a rank begin.
    std::fill(mask_.begin(), mask_.end(), 0);
    std::fill(distance_.begin(), distance_.end(), UINT32_MAX);
    order_.assign(1, 0);
    distance_[0] = 0;
    for (size_t i = 0; i < order_.size(); ++i) {
      const uint32_t x = order_[i];
      for (uint64_t d = 0; d < degree_; ++d) {
        const uint32_t y = next[d * ranks + x];
        if (distance_[y] == UINT32_MAX) {
          if (distance_[x] == most) return std::nullopt;
          distance_[y] = distance_[x] + 1;
          order_.push_back(y);
        }
        // A shortest path to y begins as one to x does, or with the link itself. All of x is known: nearer ranks came
        // before it.
        if (distance_[y] == distance_[x] + 1) mask_[y] |= x == 0 ? uint64_t{1} << d : mask_[x];
      }
    }
    if (order_.size() < ranks) return std::nullopt;
    return distance_[order_.back()];
  }

  // After a search: the sum of the steps' loads, in shards over one link.
  Fraction load() {
    Fraction sum(0);
    const std::vector<int64_t> capacity(degree_, 1);
    // A step is all ranks at one distance. Those with the same links are one group, and the balance splits groups over
    // links.
    for (size_t begin = 1, end = 1; begin < order_.size(); begin = end) {
      std::map<uint64_t, int64_t> count;
      for (; end < order_.size() && distance_[order_[end]] == distance_[order_[begin]]; ++end)
        ++count[mask_[order_[end]]];
      std::vector<plan::SourceGroup> groups;
      for (const auto& [mask, weight] : count) {
        plan::SourceGroup& group = groups.emplace_back(plan::SourceGroup{.arcs = {}, .weight = weight});
        for (uint64_t bits = mask; bits != 0; bits &= bits - 1)
          group.arcs.push_back(static_cast<uint32_t>(std::countr_zero(bits)));
      }
      sum = sum + balance(groups, capacity).load;
    }
    return sum;
  }

 private:
  std::vector<uint64_t> mask_;
  std::vector<uint32_t> distance_, order_;
  uint64_t degree_;
};

class Tries {
 public:
  explicit Tries(const CayleySearch& search)
      : search_(search),
        groups_(groups_of(search.ranks)),
        view_(search.ranks, search.degree),
        least_(static_cast<int128>(search.ranks) - 1, static_cast<int128>(search.ranks)),
        random_(kSeed) {}

  std::vector<CayleyDigraph> best() && {
    // Each try walks over all links, once for each direction.
    const uint64_t each = 2 * search_.ranks * search_.degree;
    const uint64_t tries = std::min(kMostTries, search_.visits / each);
    for (uint64_t i = 0; i < tries && !groups_.empty(); ++i) {
      if (search_.observer && i % 64 == 0) search_.observer->works_on();
      try_one(groups_[draw(groups_.size())]);
    }
    return std::move(best_);
  }

 private:
  uint64_t draw(uint64_t below) { return static_cast<uint64_t>(int128{random_()} * int128{below} >> 64); }

  // More steps than this are of no use: something as quick as can be has them.
  uint32_t most_steps() const {
    if (!best_.empty() && best_.back().time == least_) return best_.back().steps - 1;
    return search_.most_steps;
  }

  void try_one(const Parameters& parameters) {
    const fabric::SemidirectGroup group(parameters.m, parameters.k, parameters.r);
    if (!draw_elements(group)) return;
    tabulate(group, parameters);
    // Most tries end in the first search, by too many steps.
    const uint32_t most = most_steps();
    const auto there = view_.search(forward_, most);
    if (!there) return;
    const Fraction time_there = view_.load();
    const auto back = view_.search(backward_, most);
    if (!back) return;
    offer(std::max(*there, *back), std::max(time_there, view_.load()), parameters);
  }

  bool draw_elements(const fabric::SemidirectGroup& group) {
    elements_.clear();
    const auto add = [&](uint64_t element) {
      if (std::find(elements_.begin(), elements_.end(), element) == elements_.end()) elements_.push_back(element);
    };
    // Elements are drawn until there are enough. A set that ends with one too many, by an inverse, is dropped.
    for (uint64_t tries = 0; elements_.size() < search_.degree && tries < 4 * search_.degree; ++tries) {
      const uint64_t element = 1 + draw(search_.ranks - 1);
      add(element);
      if (search_.cables) add(group.inverse(element));
    }
    return elements_.size() == search_.degree;
  }

  void tabulate(const fabric::SemidirectGroup& group, const Parameters& parameters) {
    forward_.resize(search_.degree * search_.ranks);
    backward_.resize(forward_.size());
    for (size_t d = 0; d < elements_.size(); ++d) {
      // Of all elements (a, i) with the same i, the product is (a, i) moved along by as much.
      for (uint64_t i = 0; i < parameters.k; ++i) {
        const uint64_t first = group.multiply(group.element(0, i), elements_[d]);
        const uint64_t shift = first % parameters.m, row = first - shift;
        for (uint64_t a = 0; a < parameters.m; ++a) {
          const uint64_t moved = a + shift < parameters.m ? a + shift : a + shift - parameters.m;
          const auto from = static_cast<uint32_t>(group.element(a, i)), to = static_cast<uint32_t>(row + moved);
          forward_[d * search_.ranks + from] = to;
          backward_[d * search_.ranks + to] = from;
        }
      }
    }
  }

  void offer(uint32_t steps, const Fraction& load, const Parameters& parameters) {
    // Loads of both directions count; the front keeps what nothing else beats in steps and time.
    const Fraction time = load * Fraction(static_cast<int128>(search_.degree), static_cast<int128>(search_.ranks));
    for (const CayleyDigraph& known : best_) {
      if (known.steps <= steps && known.time <= time) return;
    }
    std::erase_if(best_, [&](const CayleyDigraph& known) { return known.steps >= steps && known.time >= time; });
    CayleyDigraph found{.spec = spec(parameters), .steps = steps, .time = time};
    best_.insert(std::upper_bound(best_.begin(), best_.end(), found,
                                  [](const CayleyDigraph& a, const CayleyDigraph& b) { return a.steps < b.steps; }),
                 std::move(found));
  }

  std::string spec(const Parameters& parameters) const {
    std::string text = "cayley:m=" + std::to_string(parameters.m);
    if (parameters.k > 1) text += ",k=" + std::to_string(parameters.k);
    if (parameters.r > 1) text += ",r=" + std::to_string(parameters.r);
    std::string by;
    for (const uint64_t element : elements_) {
      by += (by.empty() ? "" : "+") + std::to_string(element % parameters.m);
      if (element >= parameters.m) by += "." + std::to_string(element / parameters.m);
    }
    return text + ",by=" + by;
  }

  const CayleySearch& search_;
  std::vector<Parameters> groups_;
  RankView view_;
  Fraction least_;
  std::mt19937_64 random_;
  std::vector<uint64_t> elements_;
  std::vector<uint32_t> forward_, backward_;
  std::vector<CayleyDigraph> best_;  // by ascending steps
};

}  // namespace

std::vector<CayleyDigraph> search_cayley(const CayleySearch& search) {
  CHECK(search.degree >= 1 && search.degree <= 64 && search.degree < search.ranks);
  return Tries(search).best();
}

}  // namespace banyan::design
