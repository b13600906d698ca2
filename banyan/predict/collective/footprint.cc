#include "banyan/predict/collective/footprint.h"

#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/schedule/cost.h"

namespace banyan::predict {

Footprint footprint_of(const Schedule& schedule, uint64_t bytes, Picoseconds alpha) {
  Footprint footprint;
  footprint.latency = alpha * static_cast<int64_t>(heights(schedule).max);
  const std::vector<uint64_t> loads = link_loads(schedule);
  const double carried = static_cast<double>(bytes) * schedule.collective().carried_per_byte().to_double();
  for (uint32_t link = 0; link < loads.size(); ++link) {
    if (loads[link] == 0) continue;
    footprint.hops.push_back(
        {link, carried * static_cast<double>(loads[link]) / static_cast<double>(schedule.total_units())});
  }
  return footprint;
}

std::optional<CollectiveKind> scheduled_kind(CollectiveKind kind) {
  if (kind == CollectiveKind::barrier) return CollectiveKind::all_reduce;
  return is_planned(kind) && !is_personal(kind) ? std::optional(kind) : std::nullopt;
}

Collective collective_of(const Fabric& fabric, const CollectiveCall& call) {
  const auto kind = scheduled_kind(call.kind);
  CHECK(kind.has_value()) << to_string(call.kind);
  Collective::Options options{.kind = *kind, .ranks = {call.members.begin(), call.members.end()}};
  if (is_rooted(*kind)) options.root = call.members[call.root];
  return Collective::make(fabric, options);
}

void expect_few_transfers(const CollectiveCall& call, uint64_t transfers) {
  if (transfers <= kMostTransfers) return;
  throw Error(ErrorCode::unsupported, std::string(to_string(call.kind)) + " of " + std::to_string(call.members.size()) +
                                          " ranks is " + std::to_string(transfers) + " transfers, more than the " +
                                          std::to_string(kMostTransfers) +
                                          " that are carried out one by one; use --collectives flow");
}

}  // namespace banyan::predict
