#include "banyan/design/topology_bound.h"

#include <algorithm>
#include <functional>
#include <queue>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/plan/lp/linear_program.h"

namespace banyan::design {
namespace {

constexpr int64_t kGrid = 4096;
constexpr int64_t kMostTimes = 64;  // of the bound without looking at links; no demand is known to need nearly as much

// `links` further links between a pair, each of which lets `gain` more traffic go direct.
struct Step {
  size_t from = 0, to = 0;
  int128 gain = 0;
  uint32_t links = 0;
};

// One matrix in integers: amounts are multiplied by D * kGrid, so that a link carries line * m of them at the load of
// m / kGrid times the bound without looking at links. Gains and totals are twice that, since a cable's are those of
// both directions, halved.
class DirectTraffic {
 public:
  DirectTraffic(const DemandMatrix& demand, const Ports& ports) : demand_(demand), ports_(ports) {
    const std::vector<uint64_t> rows = demand.row_totals(), columns = demand.column_totals();
    for (size_t k = 0; k < demand.size(); ++k) {
      lines_.push_back(std::max(rows[k], columns[k]));
      line_ = std::max(line_, lines_.back());
      total_ += rows[k];
    }
    // Both ways of counting are true, so the larger one counts.
    far_ = std::max(beyond_two_hops(false), beyond_two_hops(true));
  }

  uint64_t line() const { return line_; }

  // Whether no topology has a load of m / kGrid, proved; `shares`, if any, becomes what the program says about links.
  bool is_too_little(int64_t m, std::vector<double>* shares, const std::function<void()>& works_on) const {
    // The inequality of the header at this load: the direct traffic must make up for what endpoints cannot pass on.
    const int128 link = int128{line_} * m;
    int128 through = 0;  // what endpoints can pass on
    for (const uint64_t line : lines_) through += ports_.each * link - scaled(line);
    const int128 needed = 2 * (scaled(total_ + far_) - through);  // of direct traffic
    return most_direct(link, shares, works_on) < needed;
  }

 private:
  int128 scaled(uint64_t amount) const { return int128{amount} * ports_.each * kGrid; }
  int128 scaled(int128 amount) const { return amount * ports_.each * kGrid; }

  // Traffic times the hops that it takes beyond two, at least. From an endpoint D others are one hop away at most, D
  // times D (for cables: D - 1) two, and so on (Moore); those with the least traffic are the farthest.
  int128 beyond_two_hops(bool to_column) const {
    const size_t n = demand_.size();
    const uint64_t spread = ports_.wiring == Wiring::cables ? ports_.each - 1 : ports_.each;
    int128 sum = 0;
    for (size_t i = 0; i < n; ++i) {
      std::vector<uint64_t> amounts;
      for (size_t j = 0; j < n; ++j) {
        if (i != j) amounts.push_back(to_column ? demand_.at(j, i) : demand_.at(i, j));
      }
      // The sum is least if those with most traffic are nearest.
      std::sort(amounts.begin(), amounts.end(), std::greater<>());
      uint64_t at_distance = ports_.each, hops = 1;
      for (size_t next = 0; next < amounts.size() && at_distance > 0; ++hops) {
        for (uint64_t count = 0; count < at_distance && next < amounts.size(); ++count, ++next) {
          if (hops > 2) sum += int128{amounts[next]} * (hops - 2);
        }
        at_distance = std::min<uint64_t>(at_distance * spread, n);
      }
    }
    return sum;
  }

  int128 carried(size_t i, size_t j, int128 link, uint32_t links) const {
    return std::min(scaled(demand_.at(i, j)), link * links);
  }

  std::vector<Step> steps(int128 link) const {
    std::vector<Step> result;
    const auto gain = [&](size_t i, size_t j, uint32_t count) {
      const auto one_way = [&](size_t a, size_t b) {
        return carried(a, b, link, count) - carried(a, b, link, count - 1);
      };
      return ports_.wiring == Wiring::cables ? one_way(i, j) + one_way(j, i) : 2 * one_way(i, j);
    };
    for (size_t i = 0; i < demand_.size(); ++i) {
      for (size_t j = 0; j < demand_.size(); ++j) {
        if (i == j) continue;
        const size_t before = result.size();
        for (uint32_t count = 1; count <= ports_.each; ++count) {
          const int128 more = gain(i, j, count);
          // Gains never grow with the links of a pair, so none comes after nothing.
          if (more <= 0) break;
          if (result.size() > before && result.back().gain == more) {
            ++result.back().links;
          } else {
            result.push_back({.from = i, .to = j, .gain = more, .links = 1});
          }
        }
      }
    }
    return result;
  }

  // An upper limit of the direct traffic that any counts of links allow, by the duals of the program.
  int128 most_direct(int128 link, std::vector<double>* shares, const std::function<void()>& works_on) const {
    const size_t n = demand_.size();
    // The program: links of a pair in steps of falling gain, within the ports of rows and columns.
    const std::vector<Step> all = steps(link);
    const double unit = static_cast<double>(link);
    plan::LinearProgram program;
    std::vector<std::vector<plan::LinearProgram::Term>> lines(2 * n);
    for (const Step& step : all) {
      const int column = program.add_column(-static_cast<double>(step.gain) / unit, 0, step.links);
      lines[step.from].push_back({column, 1});
      lines[n + step.to].push_back({column, 1});
    }
    for (const auto& line : lines) program.add_row(line, -plan::LinearProgram::kInfinity, ports_.each);
    const plan::LinearProgram::Solution solution = program.solve(works_on);
    // Prices of at least 0 in whole numbers prove a limit, whatever CLP's duals are: ports at their price, and what
    // steps gain beyond it.
    std::vector<int128> price;
    for (const double dual : solution.duals) price.push_back(static_cast<int128>(std::max(0.0, -dual) * unit));
    int128 limit = 0;
    for (const int128 each : price) limit += each * ports_.each;
    for (const Step& step : all) {
      limit += std::max<int128>(0, step.gain - price[step.from] - price[n + step.to]) * step.links;
    }
    if (shares) {
      shares->assign(n * n, 0);
      for (size_t s = 0; s < all.size(); ++s) {
        (*shares)[all[s].from * n + all[s].to] += std::max(0.0, solution.columns[s]);
      }
    }
    return limit;
  }

  const DemandMatrix& demand_;
  Ports ports_;
  std::vector<uint64_t> lines_;
  uint64_t line_ = 0;
  int128 total_ = 0, far_ = 0;
};

struct Loaded {
  uint64_t amount = 0;  // over all links of the pair
  uint32_t links = 0;
  size_t from = 0, to = 0;
};

// By the load of a link, then by number.
bool is_less_loaded(const Loaded& a, const Loaded& b) {
  const int128 left = int128{a.amount} * b.links, right = int128{b.amount} * a.links;
  if (left != right) return left < right;
  return std::pair(a.from, a.to) > std::pair(b.from, b.to);
}

}  // namespace

TopologyBound bound_topology(const DemandSet& demands, Bandwidth bandwidth, const Ports& ports,
                             const std::function<void()>& works_on) {
  TopologyBound result;
  for (const DemandMatrix& matrix : demands.matrices) {
    const DirectTraffic traffic(matrix, ports);
    if (traffic.line() == 0) continue;
    // Less than kGrid is too little, since an endpoint could not send what is its own.
    // Doubling until a load is not proved too little, then halving on the grid.
    int64_t too_little = kGrid - 1, enough = kGrid;
    std::vector<double> shares;
    while (enough < kGrid * kMostTimes && traffic.is_too_little(enough, &shares, works_on)) {
      too_little = enough;
      enough *= 2;
    }
    while (enough - too_little > 1) {
      const int64_t middle = (too_little + enough) / 2;
      (traffic.is_too_little(middle, &shares, works_on) ? too_little : enough) = middle;
    }
    const int64_t least = std::max(too_little, kGrid);
    const Fraction bound = Fraction(int128{traffic.line()} * least, int128{bandwidth.bytes_per_second()} * kGrid) *
                           Fraction(1, ports.each);
    if (!result.shares.empty() && bound <= result.least) continue;
    result.least = bound;
    result.shares = std::move(shares);
  }
  return result;
}

DirectTopology best_direct_topology(const DemandSet& demands, Bandwidth bandwidth, const Ports& ports) {
  const size_t n = demands.size();
  std::vector<uint64_t> amounts(n * n);
  for (const DemandMatrix& matrix : demands.matrices) {
    const std::vector<uint64_t> most = demands.most(matrix);
    for (size_t e = 0; e < n * n; ++e) amounts[e] = std::max(amounts[e], most[e]);
  }
  const bool cables = ports.wiring == Wiring::cables;
  DirectTopology result{.worst = Fraction(0), .links = std::vector<uint32_t>(n * n)};
  std::vector<uint32_t> out(n), in(n);
  const auto add = [&](size_t i, size_t j) {
    ++result.links[i * n + j];
    ++out[i];
    ++in[j];
    if (!cables) return;
    ++result.links[j * n + i];
    ++out[j];
    ++in[i];
  };
  std::priority_queue<Loaded, std::vector<Loaded>, decltype(&is_less_loaded)> queue(&is_less_loaded);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = cables ? i + 1 : 0; j < n; ++j) {
      const uint64_t amount = cables ? std::max(amounts[i * n + j], amounts[j * n + i]) : amounts[i * n + j];
      if (amount == 0) continue;
      add(i, j);
      queue.push({.amount = amount, .links = 1, .from = i, .to = j});
    }
  }
  for (size_t i = 0; i < n; ++i) {
    if (std::max(out[i], in[i]) <= ports.each) continue;
    throw invalid(demands.matrices.front().names[i] + " has " +
                  plural(std::max(out[i], in[i]), cables ? "partner" : "circuit") + " of demand but only " +
                  plural(ports.each, "port") + "; allow two hops, or give it more ports");
  }
  // The pair that is loaded most gets the next link. The first that cannot have one is the worst of all.
  bool worst_is_known = false;
  while (!queue.empty()) {
    Loaded most = queue.top();
    queue.pop();
    if (out[most.from] < ports.each && in[most.to] < ports.each) {
      add(most.from, most.to);
      ++most.links;
      queue.push(most);
    } else if (!worst_is_known) {
      worst_is_known = true;
      result.worst = Fraction(int128{most.amount}, int128{bandwidth.bytes_per_second()} * most.links);
    }
  }
  return result;
}

}  // namespace banyan::design
