// AllToAllChoice: which plan an all-to-all follows among the ranks of a communicator, or that it goes straight from
// each rank to each.
//
// Where ranks are joined directly, so that between some of them no way leads past all others, it always follows a plan:
// packets do not go through hosts that do not forward. Elsewhere the network finds the ways itself, and a plan is
// followed where it is quicker by more than kLeastGain: because it relays through ranks, or where ways can be chosen.
// Going straight takes all shortest ways alike (call_traffic.h); so does each hop of a plan where ways cannot be
// chosen. Decided by powers of two of the size, from the network alone: equal on all ranks.
//
// One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "banyan/plan/plan_book.h"

namespace banyan::compose {

class AllToAllChoice {
 public:
  static constexpr double kLeastGain = 0.05;
  // With more ranks than this, plans are made only where ranks must forward.
  static constexpr size_t kMostToCompare = 256;

  // The book belongs to the caller. `chooses_ways`: the ranks choose the ways of what a plan sends.
  AllToAllChoice(plan::PlanBook& book, std::vector<NodeId> ranks, bool chooses_ways)
      : book_(book), ranks_(std::move(ranks)), chooses_ways_(chooses_ways) {}

  // Whether no way leads from some rank to some other but through ranks. O(ranks * (nodes + links)) the first time.
  bool must_forward();
  // The plan for M of so many bytes; null: it goes straight. What the ranks must forward for and no planner can plan
  // goes straight, too, and a line of the log says so. The first time it may take long.
  const plan::Candidate* plan_for(Bytes total);
  // How long going straight takes.
  double straight_seconds(Bytes total);
  double straight_busy_seconds(Bytes total);

 private:
  const plan::Candidate* quickest(Bytes total);
  const std::vector<plan::Candidate>& candidates();
  double busiest(const std::vector<double>& bytes) const;
  double seconds_per_byte_of(const Schedule& schedule) const;
  double least_seconds_per_byte() const;
  double straight_per_byte();

  plan::PlanBook& book_;
  const std::vector<NodeId> ranks_;
  const bool chooses_ways_;
  std::optional<bool> must_forward_;
  std::optional<double> straight_per_byte_;
  bool has_none_ = false;                              // no planner has a plan
  std::map<const plan::Candidate*, double> per_byte_;  // as the network carries it
  std::map<uint64_t, const plan::Candidate*> chosen_;  // by power of two
};

}  // namespace banyan::compose
