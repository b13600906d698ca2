// Small jobs and fabrics for tests of simulations, and a short way to simulate them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/predict/simulation/job_simulation.h"

namespace banyan::predict::sample {

// Messages of rings cost nothing.
constexpr RingCosts kFree{.launch = Picoseconds(0), .step_inside = Picoseconds(0), .step_between = Picoseconds(0)};

job::Node compute(Picoseconds duration, uint16_t stream = 0);
job::Node all_reduce(uint64_t bytes, uint16_t stream = 0, uint32_t slot = 0);
job::Node send(uint64_t bytes, uint16_t stream = 0, uint32_t slot = 0);
job::Node receive(uint64_t bytes, uint16_t stream = 0, uint32_t slot = 0);

// With free rings, unless `options` name plans.
JobSimulation simulate(const Fabric& fabric, const std::vector<PlacedJob>& jobs, JobSimulationOptions options = {},
                       Picoseconds latency = Picoseconds(0));
// One job on the first ranks of the fabric.
JobSimulation simulate(const Fabric& fabric, const Job& job, const JobSimulationOptions& options = {});

// Two ranks in a group compute, then reduce.
Job uneven_pair(Picoseconds first, Picoseconds second, uint64_t bytes);
// Rank 0 sends to rank 1, which receives after `delay`.
Job message(uint64_t bytes, Picoseconds delay);
// A grid of ranks in rows and columns, with collectives on both and messages from row to row: one program a row.
Job grid(uint32_t rows, uint32_t columns, uint64_t seed);

// Two ranks, a and b, and two ways between them, by sw1 and sw2, of which the second is half as wide.
Fabric two_ways();
// Events in words, each of both directions of a cable.
std::vector<LinkEvent> events_of(const Fabric& fabric, const std::vector<std::string>& texts);
// Where the ranks of a job stand when they stand on the first ones.
std::vector<NodeId> first_ranks(const Fabric& fabric, const Job& job);
// On the link between two nodes; -1 where there is none.
double bytes_on(const Fabric& fabric, const Prediction& prediction, const char* from, const char* to);

}  // namespace banyan::predict::sample
