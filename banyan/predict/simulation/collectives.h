// JobCollectives: which members of groups have come to which call, and what a call puts on links.
//
// The n-th collective that a rank calls on a group is the n-th of all members. One of the groups that are alike
// (kinds.h) is carried out. Its call is complete when each rank that is carried out has come, with each of its slots
// that means a group of that kind. Private to job_simulation.cc.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/predict/collective/footprint.h"
#include "banyan/predict/simulation/links.h"
#include "banyan/predict/simulation/ranks.h"

namespace banyan::predict {

// A collective that all have come to.
struct JobCall {
  uint32_t group = 0;  // kind of groups
  std::vector<JobArrival> members;

  RankNode first() const { return members.front().place; }
};

class JobCollectives {
 public:
  // All outlive it.
  JobCollectives(const JobKinds& kinds, const JobRanks& ranks, CollectivePlans& plans, JobLinks& links);

  // A rank has come to a collective: the call, if it was the last. Throws Error{mismatch} when members differ.
  std::optional<JobCall> arrive(RankNode place, Picoseconds now);

  // The footprint of a call of a group of at least two. With OnFailure::move it goes round links that are down now, if
  // there is a path. Good until the next call.
  const Footprint& footprint(const JobCall& call);
  // The same message by message, at the cost of `alpha` each. Throws Error{unsupported} that names group and call when
  // the plans have none, and says what to use.
  TransferGraph transfers(const JobCall& call, Picoseconds alpha);

  // Adds a phrase for each call that waits for members.
  void name_waiting(std::vector<std::string>& phrases) const;

 private:
  struct OpenCall {
    std::vector<JobArrival> members;
    bool is_complete = false;
  };
  struct GroupKind {
    uint32_t members = 0;  // different ranks (and slots) among those that are carried out
    uint64_t first_open = 0;
    std::deque<OpenCall> open;
    std::map<JobKinds::Use, Footprint> footprints;
    // Footprints round the links that are down in this state of the timeline; nothing: there is no path round them.
    std::map<JobKinds::Use, std::optional<Footprint>> rerouted;
    uint32_t state_of_rerouted = 0;
  };

  std::vector<NodeId> sites(const JobCall& call) const;
  uint32_t first_slot(uint32_t rank, uint32_t slot) const;
  uint32_t kind_of_group(uint32_t rank, uint32_t slot) const;
  void expect_same(RankNode a, RankNode b) const;
  std::string described(RankNode place) const;

  const JobKinds& kinds_;
  const JobRanks& ranks_;
  CollectivePlans& plans_;
  JobLinks& links_;
  std::vector<GroupKind> groups_;
  std::vector<std::vector<uint64_t>> calls_;  // by rank, group slot: counted at the first that means the same group
};

}  // namespace banyan::predict
