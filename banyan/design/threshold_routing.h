// Threshold routing: what links carry when traffic goes direct up to a threshold, and by two hops beyond it.
//
// After Cao, Zhao, Teh, Liu, Wang (TROD, ICNP 2021) and Cao, Zhao, Zhang and others (Threshold-Based Routing-Topology
// Co-Design for Optical Data Center, IEEE/ACM ToN 2023), with definitions of our own:
//
//   x_ij   links from endpoint i to endpoint j, each of bandwidth B. Real numbers are allowed: what a rotor or a
//          circuit switch that turns between topologies gives on average.
//   t_ij   the traffic from i to j, here in units of B: seconds of one link for bytes, links kept busy for rates.
//   h      the threshold: up to h * x_ij of t_ij goes over the direct links.
//   excess the part of t_ij beyond that: it goes i -> k -> j over all k with links on both sides, in proportion to
//          min(x_ik, x_kj), whatever else these links carry. If there is no such k, all of t_ij goes direct; without a
//          direct link either, as few ports can cause, it takes shortest paths, split backwards from j in proportion to
//          links.
//   worst  the largest load of a link, the sum of what goes over it divided by x_ij: a time for bytes, a utilisation
//          for rates. Above 1, a utilisation says that rates must shrink by that factor.
//
// Without a second hop (Hops::direct_only) h is infinite, and all pairs with traffic need a link.
//
// Under uncertainty (demand.h) the load of a link is the most that any demand of the set puts on it: thresholds and
// shares stay, since switches do not know which demand will come. The maximum of a convex function over the set is a
// knapsack of whole entries; we take the fractional one, which is never below it and equals it without uncertainty. So
// no demand of the set loads a link more than `worst`. (What goes by more than two hops is counted with all that each
// pair may send.)
//
// Numbers are doubles. One thread. O(n^2 ports) for each matrix, times log(n) under uncertainty.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/design/demand.h"

namespace banyan::design {

enum class Hops : uint8_t { direct_only, indirect_too };

// The loads of a topology under a threshold.
struct Judgement {
  double worst = 0;        // over all links
  double mean = 0;         // load over links, without regard to where
  double unreachable = 0;  // part of the traffic that has no way at all, from 0 to 1
};

class ThresholdRouting {
 public:
  // `demands` outlives this.
  ThresholdRouting(const DemandSet& demands, Bandwidth bandwidth, Hops hops);

  size_t size() const { return size_; }
  Hops hops() const { return hops_; }
  // The traffic of all pairs together, the most of any matrix: on whole links no judgement is above twice this times
  // the endpoints.
  double total() const { return total_; }

  // `links` row by row, with a diagonal of 0.
  Judgement judge(std::span<const double> links, double threshold) const;

  // The load of each link, row by row, the largest over the demands; 0 where there is no link.
  std::vector<double> loads(std::span<const double> links, double threshold) const;

  struct Choice {
    double threshold = 0;
    Judgement judgement;
  };
  // The threshold of least cost (cost_of) among those that are judged: up to twenty, evenly chosen from 0 and those at
  // which pairs of the demand begin to have an excess, of equal ones the largest; then up to 48 round the best of them,
  // in an interval that shrinks up to 24 times, as a rule by half. The cost may have several valleys, and the lowest
  // may be missed.
  Choice best_threshold(std::span<const double> links) const;

  // The part of the traffic from endpoint `from` to `to` (as in the first matrix) that goes direct.
  double direct_share(std::span<const double> links, double threshold, size_t from, size_t to) const;

 private:
  struct Matrix {
    std::vector<double> amounts, most, rows, columns;
  };
  struct Work;
  void add_loads(const Matrix& matrix, double threshold, Work& work) const;
  void add_loads_of_uncertain(const Matrix& matrix, double threshold, Work& work) const;
  void add_far(size_t source, Work& work) const;

  size_t size_;
  Hops hops_;
  bool uncertain_;
  double total_ = 0;
  std::vector<Matrix> matrices_;
};

// The cost of a topology in a search: lower is better. Traffic that has no way at all costs at least twice the total,
// more than the worst link of any topology of whole links without uncertainty.
double cost_of(const Judgement& judgement, const ThresholdRouting& routing);

}  // namespace banyan::design
