// JobLinks: the links of the fabric as they are now, and the ways that are left over them, while jobs run.
//
// It goes through the moments of a timeline (link_events.h). Knows no flows. Private to job_simulation.cc and its
// parts.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "banyan/fabric/routing.h"
#include "banyan/predict/simulation/kinds.h"
#include "banyan/predict/simulation/rerouting.h"

namespace banyan::predict {

class JobLinks {
 public:
  // All outlive it. `rerouting`: where flows move off failed links; nullptr where they do not.
  JobLinks(const Fabric& fabric, const LinkTimeline& timeline, Rerouting* rerouting, const JobKinds& kinds);

  bool ever_change() const { return !timeline_.moments().empty(); }
  // The time at which links change next; FluidNetwork::kNever if they will not.
  Picoseconds next_change() const;
  const LinkTimeline::Moment& change();

  uint32_t state() const { return state_; }            // of the timeline
  Rerouting* rerouting() const { return rerouting_; }  // ask with state()
  bool is_blocked(std::span<const FluidHop> hops) const;
  // Bytes per second now, as protocols reach it.
  double usable(uint32_t link) const { return usable_[link]; }

  // The way of a message between two nodes; where flows move, round links that are down if there is such a way. Good
  // until the next call; empty from a node to itself.
  const std::vector<LinkId>& way(NodeId from, NodeId to);

  // "the link 'a' -> 'b'"
  std::string called(LinkId link) const;
  std::vector<LinkId> down() const;

 private:
  const Fabric& fabric_;
  const LinkTimeline& timeline_;
  Rerouting* const rerouting_;
  const JobKinds& kinds_;
  fabric::Routing routing_;
  size_t next_moment_ = 0;
  uint32_t state_ = 0;
  std::vector<double> usable_;
  std::vector<LinkId> way_;
};

}  // namespace banyan::predict
