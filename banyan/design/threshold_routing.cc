#include "banyan/design/threshold_routing.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::design {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Of a pair of endpoints: up to `most` of its traffic, of which each unit puts `density` on a link.
struct Item {
  double density = 0, most = 0;
};

// The fractional knapsack of some items, filled by density, from which the least dense can be taken out again.
class Knapsack {
 public:
  Knapsack(std::vector<Item>& items, double budget) : items_(items) {
    std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.density > b.density; });
    // The densest items first, the last of them in part. Slack is what they leave of the budget.
    slack_ = budget;
    for (; count_ < items.size() && slack_ > 0; ++count_) {
      last_ = std::min(slack_, items[count_].most);
      value_ += last_ * items[count_].density;
      slack_ -= last_;
    }
  }

  double value() const { return value_; }
  // What it costs to take the next bit out, and how much can be taken at this price.
  double price() const { return slack_ > 0 || count_ == 0 ? 0 : items_[count_ - 1].density; }
  double at_price() const { return slack_ > 0 ? slack_ : count_ == 0 ? kInfinity : last_; }
  void take(double amount) {
    value_ -= price() * amount;
    if (slack_ > 0) {
      slack_ -= amount;
    } else if (count_ > 0) {
      last_ -= amount;
      if (last_ <= 0 && --count_ > 0) last_ = items_[count_ - 1].most;
    }
  }

 private:
  std::vector<Item>& items_;
  size_t count_ = 0;  // items that are in, the last of them in part
  double last_ = 0, slack_ = 0, value_ = 0;
};

// The most that a link carries: `own` of its pair's traffic at most, whose units count fully, and what passes from
// the pairs of its row and its column. The pair shares both budgets.
double most_on_link(double own, Knapsack in_row, Knapsack in_column) {
  // A unit of the pair's own traffic counts 1 and takes as much out of both knapsacks; it pays while these cost less.
  double taken = 0;
  while (taken < own && in_row.price() + in_column.price() < 1) {
    const double step = std::min({own - taken, in_row.at_price(), in_column.at_price()});
    in_row.take(step);
    in_column.take(step);
    taken += step;
    if (step <= 0) break;
  }
  return taken + in_row.value() + in_column.value();
}

}  // namespace

struct ThresholdRouting::Work {
  Work(std::span<const double> topology, size_t n)
      : links(topology), next(n), previous(n), load(n * n), far(n), far_load(n * n) {
    for (uint32_t i = 0; i < n; ++i) {
      for (uint32_t k = 0; k < n; ++k) {
        if (links[i * n + k] <= 0) continue;
        next[i].push_back(k);
        previous[k].push_back(i);
      }
    }
  }
  void clear() {
    std::fill(load.begin(), load.end(), 0);
    std::fill(far_load.begin(), far_load.end(), 0);
    unreachable = 0;
  }

  // Calls `by(k, share)` for the middles of the ways of two hops; false when there is none.
  template <typename By>
  bool spread(size_t i, size_t j, By by) const {
    const size_t n = next.size();
    // Ways share the traffic in proportion to their narrower links.
    double all = 0;
    for (const uint32_t k : next[i]) {
      if (k != j) all += std::min(links[i * n + k], links[k * n + j]);
    }
    if (all <= 0) return false;
    for (const uint32_t k : next[i]) {
      if (k == j) continue;
      const double way = std::min(links[i * n + k], links[k * n + j]);
      if (way > 0) by(k, way / all);
    }
    return true;
  }

  std::span<const double> links;
  std::vector<std::vector<uint32_t>> next, previous;  // by endpoint: those that it has links to, and from
  std::vector<double> load;                           // of the matrix at hand
  double unreachable = 0;
  std::vector<std::vector<Item>> row_items, column_items;  // by link, under uncertainty
  std::vector<double> far, far_load;                       // of a source: traffic beyond two hops; by link: its load
  bool has_far = false;
};

ThresholdRouting::ThresholdRouting(const DemandSet& demands, Bandwidth bandwidth, Hops hops)
    : size_(demands.size()), hops_(hops), uncertain_(demands.uncertainty > Fraction(0)) {
  const double unit = static_cast<double>(bandwidth.bytes_per_second());
  const auto in_units = [&](const std::vector<uint64_t>& amounts) {
    std::vector<double> result;
    for (const uint64_t amount : amounts) result.push_back(static_cast<double>(amount) / unit);
    return result;
  };
  // Amounts in units of one link, as in the header.
  for (const DemandMatrix& matrix : demands.matrices) {
    matrices_.push_back({.amounts = in_units(matrix.amounts),
                         .most = in_units(demands.most(matrix)),
                         .rows = in_units(matrix.row_totals()),
                         .columns = in_units(matrix.column_totals())});
    double total = 0;
    for (const double amount : matrices_.back().rows) total += amount;
    total_ = std::max(total_, total);
  }
}

void ThresholdRouting::add_loads(const Matrix& matrix, double threshold, Work& work) const {
  const size_t n = size_;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      const double amount = matrix.amounts[i * n + j];
      if (amount <= 0) continue;
      // Up to the threshold the traffic goes direct.
      const double links = work.links[i * n + j], direct = links > 0 ? std::min(amount, threshold * links) : 0;
      work.load[i * n + j] += direct;
      const double excess = amount - direct;
      if (excess <= 0) continue;
      // The excess takes two hops. If there is no such way all goes direct, or, without a link, as far as it takes.
      const bool has_way = hops_ == Hops::indirect_too && work.spread(i, j, [&](uint32_t k, double share) {
        work.load[i * n + k] += excess * share;
        work.load[k * n + j] += excess * share;
      });
      if (has_way) continue;
      if (links > 0) {
        work.load[i * n + j] += excess;
      } else {
        work.far[j] = amount;
        work.has_far = true;
      }
    }
    // All that a source has for endpoints beyond two hops goes by one search.
    add_far(i, work);
  }
  for (size_t e = 0; e < n * n; ++e) work.load[e] += work.far_load[e];
}

// Breadth first from the source, then backwards: what arrives at an endpoint came from those one hop nearer.
void ThresholdRouting::add_far(size_t source, Work& work) const {
  if (!std::exchange(work.has_far, false)) return;
  const size_t n = size_;
  std::vector<uint32_t> order{static_cast<uint32_t>(source)}, distance(n, UINT32_MAX);
  distance[source] = 0;
  for (size_t next = 0; next < order.size() && hops_ == Hops::indirect_too; ++next) {
    for (const uint32_t to : work.next[order[next]]) {
      if (distance[to] != UINT32_MAX) continue;
      distance[to] = distance[order[next]] + 1;
      order.push_back(to);
    }
  }
  // Traffic that nothing leads to is told apart.
  for (size_t v = 0; v < n; ++v) {
    if (distance[v] == UINT32_MAX) work.unreachable += std::exchange(work.far[v], 0);
  }
  // From the farthest endpoint back: all that arrives at one is known when its turn comes.
  for (size_t back = order.size(); back-- > 1;) {
    const size_t v = order[back];
    const double flow = std::exchange(work.far[v], 0);
    if (flow <= 0) continue;
    double all = 0;
    for (const uint32_t u : work.previous[v]) {
      if (distance[u] + 1 == distance[v]) all += work.links[u * n + v];
    }
    // All that arrives at v came from endpoints one hop nearer, in proportion to their links.
    for (const uint32_t u : work.previous[v]) {
      if (distance[u] + 1 != distance[v]) continue;
      const double part = flow * work.links[u * n + v] / all;
      work.far_load[u * n + v] += part;
      if (u != source) work.far[u] += part;
    }
  }
  work.far[source] = 0;
}

void ThresholdRouting::add_loads_of_uncertain(const Matrix& matrix, double threshold, Work& work) const {
  const size_t n = size_;
  work.row_items.resize(n * n);
  work.column_items.resize(n * n);
  for (std::vector<Item>& items : work.row_items) items.clear();
  for (std::vector<Item>& items : work.column_items) items.clear();
  // Each pair may send up to its own most; what it puts on the links of its ways becomes items there.
  std::vector<double>& own = work.load;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      const double most = matrix.most[i * n + j];
      if (most <= 0) continue;
      const double links = work.links[i * n + j], direct = links > 0 ? std::min(most, threshold * links) : 0;
      own[i * n + j] = direct;
      if (most <= direct) continue;
      // What the unit of a full entry puts on the links of its ways: only what is beyond the threshold gets there.
      const double beyond = (most - direct) / most;
      const bool has_way = hops_ == Hops::indirect_too && work.spread(i, j, [&](uint32_t k, double share) {
        work.row_items[i * n + k].push_back({.density = share * beyond, .most = most});
        work.column_items[k * n + j].push_back({.density = share * beyond, .most = most});
      });
      if (has_way) continue;
      if (links > 0) {
        own[i * n + j] = most;
      } else {
        work.far[j] = most;
        work.has_far = true;
      }
    }
    add_far(i, work);
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (work.links[i * n + j] <= 0) continue;
      // For each link by itself: the demand that loads it most, within the totals of its row and its column.
      const Knapsack in_row(work.row_items[i * n + j], matrix.rows[i]);
      const Knapsack in_column(work.column_items[i * n + j], matrix.columns[j]);
      own[i * n + j] = most_on_link(own[i * n + j], in_row, in_column) + work.far_load[i * n + j];
    }
  }
}

Judgement ThresholdRouting::judge(std::span<const double> links, double threshold) const {
  CHECK_EQ(links.size(), size_ * size_);
  Judgement result;
  Work work(links, size_);
  double all_links = 0, all_loads = 0;
  for (const double count : links) all_links += count;
  // Each matrix is a demand of its own: the worst of all counts.
  for (const Matrix& matrix : matrices_) {
    work.clear();
    uncertain_ ? add_loads_of_uncertain(matrix, threshold, work) : add_loads(matrix, threshold, work);
    for (size_t e = 0; e < links.size(); ++e) {
      if (links[e] <= 0) continue;
      result.worst = std::max(result.worst, work.load[e] / links[e]);
      all_loads += work.load[e];
    }
    result.unreachable = std::max(result.unreachable, total_ > 0 ? work.unreachable / total_ : 0);
  }
  result.mean = all_links > 0 ? all_loads / all_links / static_cast<double>(matrices_.size()) : 0;
  return result;
}

std::vector<double> ThresholdRouting::loads(std::span<const double> links, double threshold) const {
  Work work(links, size_);
  std::vector<double> result(links.size());
  for (const Matrix& matrix : matrices_) {
    work.clear();
    uncertain_ ? add_loads_of_uncertain(matrix, threshold, work) : add_loads(matrix, threshold, work);
    for (size_t e = 0; e < links.size(); ++e) {
      if (links[e] > 0) result[e] = std::max(result[e], work.load[e] / links[e]);
    }
  }
  return result;
}

ThresholdRouting::Choice ThresholdRouting::best_threshold(std::span<const double> links) const {
  if (hops_ == Hops::direct_only) return {.threshold = kInfinity, .judgement = judge(links, kInfinity)};
  // 1. Thresholds at which the traffic of some pair just goes direct.
  std::vector<double> steps{0};
  for (const Matrix& matrix : matrices_) {
    for (size_t e = 0; e < links.size(); ++e) {
      if (links[e] > 0 && matrix.most[e] > 0) steps.push_back(matrix.most[e] / links[e]);
    }
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  // 2. Some of these, evenly chosen, are judged.
  constexpr size_t kCandidates = 20;
  if (steps.size() > kCandidates) {
    std::vector<double> thinned;
    for (size_t c = 0; c < kCandidates; ++c) thinned.push_back(steps[c * (steps.size() - 1) / (kCandidates - 1)]);
    steps = std::move(thinned);
  }
  std::vector<double> costs;
  for (const double step : steps) costs.push_back(cost_of(judge(links, step), *this));
  size_t best = 0;  // of equal ones the largest: what can go direct does
  for (size_t c = 1; c < costs.size(); ++c) best = costs[c] <= costs[best] ? c : best;
  // 3. The interval round the best of them shrinks to the side where it gets better.
  double middle = steps[best], least = costs[best];
  double low = best > 0 ? steps[best - 1] : middle, high = best + 1 < steps.size() ? steps[best + 1] : middle;
  for (int round = 0; round < 24 && high - low > 1e-7 * high; ++round) {
    const double left = (low + middle) / 2, right = (middle + high) / 2;
    const double at_left = cost_of(judge(links, left), *this), at_right = cost_of(judge(links, right), *this);
    if (at_left < least && at_left <= at_right) {
      high = middle;
      middle = left;
      least = at_left;
    } else if (at_right < least) {
      low = middle;
      middle = right;
      least = at_right;
    } else {
      low = left;
      high = right;
    }
  }
  return {.threshold = middle, .judgement = judge(links, middle)};
}

double ThresholdRouting::direct_share(std::span<const double> links, double threshold, size_t from, size_t to) const {
  const size_t e = from * size_ + to;
  const double amount = matrices_.front().amounts[e];
  if (amount <= 0 || links[e] <= 0) return 0;
  if (threshold * links[e] >= amount) return 1;
  // The excess leaves the direct links only if there is a way of two hops.
  for (size_t k = 0; k < size_; ++k) {
    if (links[from * size_ + k] > 0 && links[k * size_ + to] > 0) return threshold * links[e] / amount;
  }
  return 1;  // there is no other way
}

double cost_of(const Judgement& judgement, const ThresholdRouting& routing) {
  constexpr double kSmall = 1e-3;  // enough to part topologies that are equal in their worst link
  const double nothing_reached = 2 * routing.total() * (1 + 10 * judgement.unreachable);
  return judgement.worst + kSmall * judgement.mean + (judgement.unreachable > 0 ? nothing_reached : 0);
}

}  // namespace banyan::design
