#include "banyan/service/share/route_adviser.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace banyan::service {
namespace {

constexpr uint32_t kWhole = 16;

size_t place_of(ShareClass share_class) { return static_cast<size_t>(share_class); }

}  // namespace

void RouteAdviser::record(const CallReport& report, Time now) {
  if (report.footprint.empty()) return;
  Known& known = known_[report.communicator];
  known.sharer = report.sharer;
  known.weight = report.weight;
  known.share_class = report.share_class;
  known.seen = now;
  known.uses.clear();
  double longest = 0;
  for (const LinkUse& use : report.footprint) {
    if (use.link >= options_.capacities.size()) continue;
    known.uses[use.link] = use.bytes / options_.capacities[use.link];
    longest = std::max(longest, known.uses[use.link]);
  }
  // The busiest link counts as busy for the whole time of a call alone, others in proportion.
  for (auto& [link, use] : known.uses) use /= longest;
}

void RouteAdviser::forget_old(Time now) {
  // A communicator that computes between calls is remembered for a while, so that its pauses change nothing.
  std::erase_if(known_, [&](const auto& each) { return now - each.second.seen > options_.memory; });
  counts_.clear();
  for (const auto& [name, known] : known_) ++counts_[{known.sharer, known.share_class}];
}

double RouteAdviser::own_weight(const Known& known) const {
  return known.weight / counts_.at({known.sharer, known.share_class});
}

RouteAdviser::Demands RouteAdviser::demands() const {
  Demands demands;
  for (const auto& [name, known] : known_) {
    const size_t place = place_of(known.share_class);
    for (const auto& [link, use] : known.uses) {
      demands[link].use[place] += use;
      demands[link].weighted[place] += use * own_weight(known);
    }
  }
  return demands;
}

uint32_t RouteAdviser::sixteenths(const Known& known, double own_use, const Demand& demand) const {
  const size_t place = place_of(known.share_class);
  // Higher classes take what they use. Lower ones keep their floors.
  double above = 0, floors = 0;
  for (size_t other = 0; other < kClasses; ++other) {
    if (other < place) above += demand.use[other];
    if (other > place && demand.use[other] > 0) floors += options_.least;
  }
  // The rest is the class's own, and within it a communicator has its weight over all that use the link.
  const double left = std::max(options_.least, 1 - std::min(above, 1.0)) * (1 - floors);
  // Others count as far as they use the link.
  const double own = own_weight(known), others = demand.weighted[place] - own_use * own;
  const double part = left * own / (own + std::max(0.0, others));
  return std::clamp<uint32_t>(static_cast<uint32_t>(std::lround(part * kWhole)), 1, kWhole);
}

std::map<uint32_t, uint32_t> RouteAdviser::view_of(const Known& known, const Demands& demands) const {
  std::map<uint32_t, uint32_t> view;
  for (const auto& [link, demand] : demands) {
    const auto own = known.uses.find(link);
    const uint32_t part = sixteenths(known, own == known.uses.end() ? 0 : own->second, demand);
    // Links that it would have whole need not be told.
    if (part < kWhole) view[link] = part;
  }
  return view;
}

std::optional<RouteAdviser::Advice> RouteAdviser::advise(Time now) {
  forget_old(now);
  const Demands all = demands();
  // One communicator, the next in turn: all at once would meet again elsewhere.
  auto next = known_.upper_bound(last_);
  for (size_t looked_at = 0; looked_at < known_.size(); ++looked_at, ++next) {
    if (next == known_.end()) next = known_.begin();
    Known& known = next->second;
    if (known.advised && now - *known.advised < options_.pause) continue;
    std::map<uint32_t, uint32_t> view = view_of(known, all);
    // Only a loss on links that it uses is worth a new plan, or advice given before that no longer holds.
    const bool has_lost =
        std::any_of(view.begin(), view.end(), [&](const auto& part) { return known.uses.contains(part.first); });
    if (view == known.sent || (!has_lost && known.sent.empty())) continue;
    Advice advice{.communicator = next->first, .view = {}};
    for (const auto& [link, part] : view) advice.view.push_back({.link = link, .sixteenths = part});
    // Links of which it was told before and has the whole again are told as well.
    for (const auto& [link, part] : known.sent) {
      if (!view.contains(link)) advice.view.push_back({.link = link, .sixteenths = kWhole});
    }
    known.sent = std::move(view);
    known.advised = now;
    last_ = next->first;
    return advice;
  }
  return std::nullopt;
}

}  // namespace banyan::service
