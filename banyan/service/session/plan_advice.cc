#include "banyan/service/session/plan_advice.h"

#include <algorithm>

namespace banyan::service {
namespace {

// Of the time that calls take; less is not worth a change.
constexpr double kLeastGain = 0.1;

}  // namespace

std::map<uint32_t, uint64_t> AdvisedCables::bandwidths(const LinkTable& links, const std::vector<LinkPart>& view,
                                                       const run::FabricUpdate& adopted) {
  std::map<uint32_t, uint32_t> parts;  // by cable
  for (const LinkPart& each : view) {
    if (each.link >= links.cables.size()) continue;
    const auto [part, is_new] = parts.try_emplace(links.cables[each.link], each.sixteenths);
    if (!is_new) part->second = std::min(part->second, each.sixteenths);
  }
  std::map<uint32_t, double> whole;
  for (uint32_t link = 0; link < links.cables.size(); ++link) {
    const auto [bandwidth, is_new] = whole.try_emplace(links.cables[link], links.bandwidths[link]);
    if (!is_new && bandwidth->second != links.bandwidths[link]) parts.erase(links.cables[link]);
  }
  std::map<uint32_t, uint64_t> bandwidths;
  for (const auto& [cable, sixteenths] : parts) {
    Advised& advised = advised_[cable];
    const auto said = adopted.bytes_per_second.find(cable);
    if (said == adopted.bytes_per_second.end()) {
      advised.whole = static_cast<uint64_t>(whole.at(cable));
    } else if (said->second == advised.latest) {
      advised.adopted = advised.latest;
    } else if (said->second != advised.adopted) {
      advised.whole = said->second;
    }
    advised.latest = std::max<uint64_t>(1, advised.whole * sixteenths / 16);
    bandwidths[cable] = advised.latest;
  }
  return bandwidths;
}

std::optional<run::PlanWish> weigh(const PlannedCall& call, const LinkTable& links,
                                   const std::map<uint32_t, uint64_t>& bandwidths) {
  const run::PlanWish wish{.bytes_per_second = bandwidths};
  const run::FabricUpdate update = call.adopted.after(wish);
  double present = 0;
  for (const LinkUse& use : call.links) {
    const auto changed = update.bytes_per_second.find(links.cables.at(use.link));
    const double bandwidth =
        changed == update.bytes_per_second.end() ? links.bandwidths[use.link] : static_cast<double>(changed->second);
    present = std::max(present, use.bytes / bandwidth);
  }
  const double planned = call.source->revised(update)->plan(call.question).busy_seconds;
  if (planned >= present * (1 - kLeastGain)) return std::nullopt;
  return wish;
}

}  // namespace banyan::service
