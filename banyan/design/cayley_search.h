// Digraphs of Cayley with few steps, found by trying many: groups of semidirect_group.h, elements drawn at random from
// a fixed seed. Every rank sees the same graph, so one breadth-first search and one balance for each step tell what a
// breadth-first broadcast costs (bfb.h), exactly.
//
// Among so many there are better ones than in the families with a formula: 64 ranks of degree 4 in 4 steps at optimal
// bandwidth, where the best circulant needs 6.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/graph/plan_observer.h"

namespace banyan::design {

struct CayleyDigraph {
  std::string spec;    // for fabric/generate.h
  uint32_t steps = 0;  // of a breadth-first broadcast, the more of both directions
  Fraction time;       // T_B in units of M / B, the longer of both directions
};

struct CayleySearch {
  uint64_t ranks = 0, degree = 0;    // degree at most 64, below ranks
  bool cables = false;               // links in pairs only: with an element always its inverse
  uint64_t visits = 0;               // how many links to walk over, in all digraphs together
  uint32_t most_steps = UINT32_MAX;  // nothing with more is wanted
  plan::PlanObserver* observer = nullptr;
};

// The best found: each has more steps and less time than the one before. Empty when none has at most `most_steps`.
std::vector<CayleyDigraph> search_cayley(const CayleySearch& search);

}  // namespace banyan::design
