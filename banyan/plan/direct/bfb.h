// Breadth-first broadcast (BFB): schedules for fabrics without switches, with as few steps as there can be.
//
// Zhao, Pal et al., "Efficient Direct-Connect Topologies for Collective Communications" (NSDI 2025, arXiv 2202.03356),
// section 5. In step t of an allgather, every rank u receives the shards of all ranks at distance t from it, each once,
// from neighbours that are at distance t - 1 from the shard's owner. Receivers do not interact, so each of them and
// each step is one small problem (balance.h): share the shards out so that the most loaded of u's incoming links is
// loaded least. Shards may come in parts. Reduce-scatter is the same on the fabric turned round, allreduce both, joined
// at the roots. There are as many steps as the diameter D (2D for allreduce).
//
// Links may differ in bandwidth: a load is then weight / bandwidth. **Optimal:** for every receiver and step, the time
// of its slowest link, among all choices of shortest paths; so the step-synchronised time (below) is the least that any
// such schedule has. **Not optimal:** nothing goes a longer way round, which on irregular fabrics and on those with
// slow links among fast ones costs throughput that the forest (plan/forest) has.
//
// Two times. *Step-synchronised*, as the paper counts: T_B is the sum over steps of the most loaded link's time, as if
// nobody began a step before all had ended the last. *Pipelined*, as the verifier counts: the total load of the most
// loaded link, all steps together. The second is at most the first, and equal to it where one link is the most loaded
// in every step, as on tori of equal links.
//
// Chunks. A root's shard is cut only where some receiver takes its parts from different links; a split at the same
// place serves all receivers. With equal bandwidths these places are fractions with a denominator of at most the
// degree, so a root has a few chunks: 1 to 2 on Kautz digraphs, 4 on a torus of two dimensions. Edges carry
// their step as a tie, so that everything a rank sends to a neighbour in one step travels as one message.
//
// If the fabric declares symmetries (fabric.h), one receiver of an orbit is solved and carried over to the others.
// Complexity: O(ranks * links) steps of a breadth-first search for receivers that are not alike, and N^2 numbers of 32
// bits; the schedule has N * (N - 1) edges, times the chunks of a root. Pure: same input, same bytes out.
#pragma once

#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/plan/graph/plan_observer.h"
#include "banyan/schedule/schedule.h"

namespace banyan::plan {

struct BfbCost {
  // The time of each step, in order: exact seconds per byte of the total M, when all wait for all.
  std::vector<Fraction> steps;

  Fraction seconds_per_byte() const;  // their sum, the step-synchronised T_B
};

struct BfbPlan {
  Schedule schedule;
  BfbCost cost;
  // False when shares have so little in common that 62 bits cannot count them: cuts are then rounded to 1/65536 of a
  // shard or finer, and the schedule is slower than `cost` by that much at most.
  bool exact = true;
};

// Allgather, reduce-scatter and allreduce. Throws Error{unsupported} for other kinds, on fabrics with switches, where
// participants reach one another only through ranks that do not take part, and beyond 2^28 tree edges.
BfbPlan plan_bfb(const Fabric& fabric, const Collective& collective, PlanObserver* observer = nullptr);

// The cost alone, without N^2 of anything: for search among many fabrics. Throws as plan_bfb, but knows no limit.
BfbCost bfb_cost(const Fabric& fabric, const Collective& collective, PlanObserver* observer = nullptr);

}  // namespace banyan::plan
