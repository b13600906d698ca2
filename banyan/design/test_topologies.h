// For tests: every topology of a few endpoints, random demands, and loads that are found way by way, by code that
// shares nothing with threshold_routing.cc.
#pragma once

#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/design/demand.h"
#include "banyan/design/port_rounding.h"

namespace banyan::design {

inline constexpr Bandwidth kUnit = Bandwidth::bytes_per_second(1);  // of a link, so that amounts are loads

// Calls `visit` for every topology; with `all_used`, for those that use all ports, of cables with an odd number of
// ports in all, all but one.
inline void for_all_topologies(const Ports& ports, bool all_used,
                               const std::function<void(const std::vector<uint32_t>&)>& visit) {
  const size_t n = ports.endpoints;
  std::vector<uint32_t> links(n * n), out(n), in(n);
  const bool cables = ports.wiring == Wiring::cables;
  std::vector<std::pair<size_t, size_t>> pairs;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = cables ? i + 1 : 0; j < n; ++j) {
      if (i != j) pairs.emplace_back(i, j);
    }
  }
  const std::function<void(size_t)> choose = [&](size_t next) {
    if (next == pairs.size()) {
      uint64_t free = 0;
      for (size_t i = 0; i < n; ++i) free += ports.each - out[i];
      if (!all_used || free <= (cables ? n * ports.each % 2 : 0)) visit(links);
      return;
    }
    const auto [i, j] = pairs[next];
    const uint32_t most = std::min(ports.each - out[i], ports.each - in[j]);
    for (uint32_t count = 0; count <= most; ++count) {
      const auto add = [&](size_t from, size_t to, int by) {
        links[from * n + to] += static_cast<uint32_t>(by);
        out[from] += static_cast<uint32_t>(by);
        in[to] += static_cast<uint32_t>(by);
      };
      add(i, j, static_cast<int>(count));
      if (cables) add(j, i, static_cast<int>(count));
      choose(next + 1);
      add(i, j, -static_cast<int>(count));
      if (cables) add(j, i, -static_cast<int>(count));
    }
  };
  choose(0);
}

// Amounts up to 1000, some far larger, some 0.
inline DemandMatrix random_demand(std::mt19937_64& random, size_t n) {
  DemandMatrix demand;
  for (size_t i = 0; i < n; ++i) demand.names.push_back("e" + std::to_string(i));
  const uint64_t zeros = random() % 4, large = random() % 4;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      uint64_t amount = i == j || random() % 8 < zeros ? 0 : 1 + random() % 1000;
      if (random() % 8 < large) amount *= 10;
      demand.amounts.push_back(amount);
    }
  }
  if (n > 1 && std::all_of(demand.amounts.begin(), demand.amounts.end(), [](uint64_t a) { return a == 0; }))
    demand.amounts[1] = 5;
  return demand;
}

// Loads over links of all pairs, each with its own list of ways.
class WayByWay {
 public:
  WayByWay(const std::vector<double>& links, size_t n, double threshold)
      : links_(links), n_(n), threshold_(threshold) {}

  // The load of each link for these amounts, row by row; infinite where a pair has no way.
  std::vector<double> loads(const std::vector<double>& amounts) const {
    std::vector<double> result(n_ * n_);
    for (size_t i = 0; i < n_; ++i) {
      for (size_t j = 0; j < n_; ++j) {
        if (amounts[i * n_ + j] > 0) add_pair(i, j, amounts[i * n_ + j], result);
      }
    }
    for (size_t e = 0; e < result.size(); ++e) result[e] = links_[e] > 0 ? result[e] / links_[e] : 0;
    if (has_no_way_) std::fill(result.begin(), result.end(), 1e300);
    return result;
  }
  double worst(const std::vector<double>& amounts) const {
    const std::vector<double> all = loads(amounts);
    return *std::max_element(all.begin(), all.end());
  }

 private:
  double link(size_t a, size_t b) const { return links_[a * n_ + b]; }

  void add_pair(size_t i, size_t j, double amount, std::vector<double>& result) const {
    double over_two = 0;
    for (size_t k = 0; k < n_; ++k) over_two += std::min(link(i, k), link(k, j));
    double direct = link(i, j) > 0 ? std::min(amount, threshold_ * link(i, j)) : 0;
    if (over_two == 0 && link(i, j) > 0) direct = amount;
    result[i * n_ + j] += direct;
    if (direct >= amount) return;
    if (over_two == 0) return add_far(i, j, amount, result);
    for (size_t k = 0; k < n_; ++k) {
      const double part = (amount - direct) * std::min(link(i, k), link(k, j)) / over_two;
      result[i * n_ + k] += part;
      result[k * n_ + j] += part;
    }
  }

  size_t distance(size_t from, size_t to) const {
    std::vector<size_t> hops(n_, n_);
    hops[from] = 0;
    for (size_t round = 0; round < n_; ++round) {
      for (size_t a = 0; a < n_; ++a) {
        for (size_t b = 0; b < n_; ++b) {
          if (link(a, b) > 0) hops[b] = std::min(hops[b], hops[a] + 1);
        }
      }
    }
    return hops[to];
  }

  void add_far(size_t i, size_t j, double amount, std::vector<double>& result) const {
    if (i == j) return;
    const size_t hops = distance(i, j);
    if (hops >= n_) {
      has_no_way_ = true;
      return;
    }
    double all = 0;
    for (size_t u = 0; u < n_; ++u) {
      if (distance(i, u) + 1 == hops) all += link(u, j);
    }
    for (size_t u = 0; u < n_; ++u) {
      if (distance(i, u) + 1 != hops || link(u, j) <= 0) continue;
      result[u * n_ + j] += amount * link(u, j) / all;
      add_far(i, u, amount * link(u, j) / all, result);
    }
  }

  const std::vector<double>& links_;
  size_t n_;
  double threshold_;
  mutable bool has_no_way_ = false;
};

inline std::vector<double> in_links(const DemandMatrix& demand, Bandwidth bandwidth) {
  std::vector<double> result;
  for (const uint64_t amount : demand.amounts) {
    result.push_back(static_cast<double>(amount) / static_cast<double>(bandwidth.bytes_per_second()));
  }
  return result;
}

}  // namespace banyan::design
