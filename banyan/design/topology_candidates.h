// The candidates of topology.h, by rules alone: nothing here builds a graph of the size that is asked for.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/graph/plan_observer.h"

namespace banyan::design {

struct TopologyCandidate {
  std::string spec = {};
  uint32_t steps = 0;   // as the rules say, which may be too few
  Fraction time = {};   // in M / B
  std::string of = {};  // of a line graph: what it is made of, and how often
  uint32_t lines = 0;
};

class TopologyCandidates {
 public:
  TopologyCandidates(bool cables, plan::PlanObserver* observer) : cables_(cables), observer_(observer) {}

  // The candidates that no other one beats by the rules, and the named families even if one does, by ascending steps.
  std::vector<TopologyCandidate> all(uint64_t ranks, uint64_t degree);

 private:
  using Candidates = std::vector<TopologyCandidate>;

  const Candidates& front(uint64_t ranks, uint64_t degree);
  void add_bases(uint64_t ranks, uint64_t degree, Candidates& found) const;
  void add_cayley(uint64_t ranks, uint64_t degree, Candidates& found) const;
  void add_lines(uint64_t ranks, uint64_t degree, Candidates& found);
  void add_copies(uint64_t ranks, uint64_t degree, Candidates& found);
  void add_products(uint64_t ranks, uint64_t degree, Candidates& found);

  bool cables_;
  plan::PlanObserver* observer_;
  std::map<std::pair<uint64_t, uint64_t>, Candidates> fronts_;
};

}  // namespace banyan::design
