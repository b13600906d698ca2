// AllToAllChoice: which plan an all-to-all follows among the ranks of a communicator, or that it goes straight from
// each rank to each.
//
// It always follows a plan if ranks are joined directly, so that all paths between some two of them lead through other
// ranks: packets do not go through hosts that do not forward. Otherwise the network finds the paths itself, and a plan
// is followed if it is quicker by more than kLeastGain: because it relays through ranks, or because paths can be
// chosen. Traffic that goes straight takes all shortest paths alike (call_traffic.h); so does each hop of a plan if
// paths cannot be chosen. The choice is made for each power of two of the size, from the network alone: equal on all
// ranks.
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

  // The book belongs to the caller. `chooses_ways`: the ranks choose the paths of a plan's messages.
  AllToAllChoice(plan::PlanBook& book, std::vector<NodeId> ranks, bool chooses_ways)
      : book_(book), ranks_(std::move(ranks)), chooses_ways_(chooses_ways) {}

  // True if all paths from some rank to some other lead through other ranks. O(ranks * (nodes + links)) the first time.
  bool must_forward();
  // The plan for so many bytes of all ranks; null: it goes straight. It goes straight, too, if the ranks must forward
  // but no planner has a plan; then a line of the log says so. The first call may take long.
  const plan::Candidate* plan_for(Bytes total);
  // Seconds that going straight takes; and those of its busiest link alone.
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
