#include "banyan/predict/simulation/what_if.h"

#include <algorithm>
#include <string>

namespace banyan::predict {

Fabric with_doubled_links(const Fabric& fabric, const std::function<bool(const Link&)>& is_meant) {
  Fabric::Builder builder;
  for (const Node& node : fabric.nodes()) builder.add_node(node);
  for (Link link : fabric.links()) {
    if (is_meant(link)) {
      const uint64_t doubled = std::min(2 * link.bandwidth.bytes_per_second(), Bandwidth::kMaxBytesPerSecond);
      link.bandwidth = Bandwidth::bytes_per_second(doubled);
    }
    builder.add_link(link);
  }
  return std::move(builder).build();
}

std::vector<WhatIf> what_if(const Fabric& fabric, const std::vector<PlacedJob>& jobs, JobSimulationOptions options,
                            const PlansFor& plans_for, Picoseconds base) {
  options.most_spans = 0;
  const fabric::Boxes boxes = find_boxes(fabric);
  const auto is_inside = [&](const Link& link) {
    const uint32_t box = boxes.box_of[index(link.from)];
    return box != fabric::Boxes::kNone && box == boxes.box_of[index(link.to)];
  };
  std::vector<WhatIf> answers;
  const auto ask = [&](const std::string& resource, const Fabric& changed, double latency, double speed) {
    const std::unique_ptr<CollectivePlans> plans = plans_for(changed, latency);
    JobSimulationOptions other = options;
    other.plans = plans.get();
    other.plans_for = [&](const Fabric& left) { return plans_for(left, latency); };
    other.compute_speed = speed;
    other.message_latency =
        Picoseconds(static_cast<int64_t>(static_cast<double>(options.message_latency.count()) * latency));
    const Prediction prediction = simulate_jobs(changed, jobs, other).prediction;
    if (!prediction.complete) return;
    const Picoseconds time = prediction.time;
    answers.push_back({.resource = resource,
                       .time = time,
                       .gain = 1 - static_cast<double>(time.count()) / static_cast<double>(base.count())});
  };
  const bool has_inside = std::any_of(fabric.links().begin(), fabric.links().end(), is_inside);
  const bool has_outside = !std::all_of(fabric.links().begin(), fabric.links().end(), is_inside);
  if (has_inside) ask("the bandwidth of links inside boxes", with_doubled_links(fabric, is_inside), 1, 1);
  if (has_outside) {
    ask("the bandwidth of links between boxes",
        with_doubled_links(fabric, [&](const Link& link) { return !is_inside(link); }), 1, 1);
  }
  ask("the speed of computation", fabric, 1, 2);
  ask("the quickness of messages (half their latency)", fabric, 0.5, 1);
  std::stable_sort(answers.begin(), answers.end(), [](const WhatIf& a, const WhatIf& b) { return a.gain > b.gain; });
  return answers;
}

}  // namespace banyan::predict
