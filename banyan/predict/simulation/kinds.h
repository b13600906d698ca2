// Ranks, groups and links of jobs on a fabric that are alike; see job_simulation.h. Private to job_simulation.cc.
#pragma once

#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/fabric/routing.h"
#include "banyan/predict/simulation/job_simulation.h"
#include "banyan/predict/simulation/link_events.h"
#include "banyan/predict/simulation/rerouting.h"

namespace banyan::predict {

// Ranks and groups of all jobs, numbered through.
class JobKinds {
 public:
  static constexpr uint32_t kUnused = UINT32_MAX;

  // One way in which a group is used. Each has a footprint.
  struct Use {
    CollectiveKind kind;
    uint32_t root;
    uint64_t bytes;
    friend auto operator<=>(const Use&, const Use&) = default;
  };

  // The changes of links in time. `rerouting`: where flows move off failed links; nullptr where they do not.
  struct Changes {
    const LinkTimeline& timeline;
    Rerouting* rerouting;
  };
  JobKinds(const Fabric& fabric, const std::vector<PlacedJob>& jobs, const JobSimulationOptions& options,
           Changes changes);

  uint32_t rank_count() const { return static_cast<uint32_t>(kind_of_rank_.size()); }
  uint32_t first_rank(size_t job) const { return first_rank_[job]; }
  uint32_t first_group(size_t job) const { return first_group_[job]; }
  size_t job_of(uint32_t rank) const { return job_of_rank_[rank]; }

  uint32_t kind_of_rank(uint32_t rank) const { return kind_of_rank_[rank]; }
  uint32_t kind_of_group(uint32_t group) const { return kind_of_group_[group]; }
  uint32_t kind_of_link(uint32_t link) const { return kind_of_link_[link]; }
  size_t link_count() const { return kind_of_link_.size(); }  // of the fabric
  // True if some receive takes from anybody, or any tag; then each rank, group and link is of a kind of its own.
  bool has_any() const { return has_any_; }
  // The first peer slot of a rank that means `peer`; kUnused when none does.
  static uint32_t first_slot_of(const Job& job, uint32_t rank, uint32_t peer);

  // One of each kind, and how many there are.
  const std::vector<uint32_t>& ranks() const { return ranks_; }
  const std::vector<uint32_t>& groups() const { return groups_; }
  uint32_t ranks_like(uint32_t kind) const { return ranks_like_[kind]; }
  uint32_t groups_like(uint32_t kind) const { return groups_like_[kind]; }
  const std::vector<double>& capacities() const { return capacities_; }
  // Bytes per second of a link of the fabric, as protocols reach it, before any event.
  double usable(uint32_t link) const { return usable_[link]; }

  // Bytes on links of one group's footprint, or one message's way, as bytes on links of kinds when all alike do it; no
  // link twice.
  std::vector<FluidHop> folded(std::span<const FluidHop> hops, uint32_t times) const;

 private:
  class Colours;

  void number();
  bool any_program_is_shared() const;
  void find_uses(bool* may_fold);
  void fold(const Fabric& fabric, const JobSimulationOptions& options, Changes changes);
  void keep_apart(const Fabric& fabric);

  const std::vector<PlacedJob>& jobs_;
  bool has_any_ = false, is_folded_ = false;
  std::vector<uint32_t> first_rank_, first_group_;
  std::vector<uint32_t> job_of_rank_;
  std::vector<std::vector<Use>> uses_;    // by group, ascending
  std::vector<std::vector<bool>> sends_;  // by program of all jobs: by peer slot, whether it sends there
  std::vector<uint32_t> kind_of_rank_, kind_of_group_, kind_of_link_;
  std::vector<uint32_t> ranks_, groups_, ranks_like_, groups_like_, links_like_;
  std::vector<double> capacities_, usable_;
};

}  // namespace banyan::predict
