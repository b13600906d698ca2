// The same simulation with one resource doubled at a time: what-if.
//
// Resources: links inside boxes, links between them (network cards and what lies beyond), the speed of devices (their
// peak rates and memory; launches by the host and what a trace says of it stay as they are),
// and, as halved, what messages and collectives cost besides their bytes.
#pragma once

#include <functional>
#include <vector>

#include "banyan/predict/simulation/job_simulation.h"

namespace banyan::predict {

// Plans for a fabric (it differs from run to run), with latencies times `latency`.
using PlansFor = std::function<std::unique_ptr<CollectivePlans>(const Fabric& fabric, double latency)>;

// `options.plans` is not used. One simulation for each resource; best gain first. `base`: the time as things are.
// Simulations that options.observer stops are left out.
std::vector<WhatIf> what_if(const Fabric& fabric, const std::vector<PlacedJob>& jobs, JobSimulationOptions options,
                            const PlansFor& plans_for, Picoseconds base);

// The fabric with the bandwidth of all links for which `is_meant` says so doubled; nodes and links keep their numbers.
Fabric with_doubled_links(const Fabric& fabric, const std::function<bool(const Link&)>& is_meant);

}  // namespace banyan::predict
