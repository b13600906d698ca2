#include "banyan/predict/simulation/links.h"

#include <algorithm>

namespace banyan::predict {

JobLinks::JobLinks(const Fabric& fabric, const LinkTimeline& timeline, Rerouting* rerouting, const JobKinds& kinds)
    : fabric_(fabric), timeline_(timeline), rerouting_(rerouting), kinds_(kinds), routing_(fabric) {
  for (uint32_t link = 0; link < fabric.links().size(); ++link) usable_.push_back(kinds.usable(link));
}

Picoseconds JobLinks::next_change() const {
  return next_moment_ == timeline_.moments().size() ? FluidNetwork::kNever : timeline_.moments()[next_moment_].time;
}

const LinkTimeline::Moment& JobLinks::change() {
  const LinkTimeline::Moment& moment = timeline_.moments()[next_moment_++];
  state_ = moment.state;
  for (const LinkEvent& change : moment.changes) {
    const uint32_t link = index(change.link);
    const Bandwidth own = fabric_.link(change.link).bandwidth;
    // Protocols reach the same share of another bandwidth.
    usable_[link] = kinds_.usable(link) * static_cast<double>(change.bandwidth.value_or(own).bytes_per_second()) /
                    static_cast<double>(own.bytes_per_second());
  }
  return moment;
}

bool JobLinks::is_blocked(std::span<const FluidHop> hops) const {
  return state_ != 0 && std::any_of(hops.begin(), hops.end(),
                                    [&](const FluidHop& hop) { return timeline_.is_down(state_, LinkId{hop.link}); });
}

const std::vector<LinkId>& JobLinks::way(NodeId from, NodeId to) {
  way_.clear();
  if (from != to) routing_.find(from, to, 0, way_);
  const auto is_down = [&](LinkId link) { return timeline_.is_down(state_, link); };
  // A detour is asked for only if the ordinary way is broken. Without one the message waits on the ordinary way.
  if (rerouting_ != nullptr && std::any_of(way_.begin(), way_.end(), is_down)) {
    if (const auto detour = rerouting_->way(state_, from, to)) way_ = *detour;
  }
  return way_;
}

std::string JobLinks::called(LinkId link) const {
  return "the link '" + fabric_.name(fabric_.link(link).from) + "' -> '" + fabric_.name(fabric_.link(link).to) + "'";
}

std::vector<LinkId> JobLinks::down() const {
  std::vector<LinkId> down;
  for (const LinkTimeline::Changed& row : timeline_.states()[state_]) {
    if (row.bandwidth == Bandwidth()) down.push_back(row.link);
  }
  return down;
}

}  // namespace banyan::predict
