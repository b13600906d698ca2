// Jobs on a fabric, in virtual time: every rank carries out its program, collectives and messages share the links.
//
// A collective begins when all members of its group have come to it and all of its bytes move in proportion, as one
// flow over the links of its footprint (footprint.h), after its latency. A message is a flow along the way that the
// fabric routes it (fabric/routing.h): it begins when its send starts, or, above `eager`, when its receive has started
// as well; its send ends with its last byte, and so does its receive if it has started. Compute and memory nodes take
// their duration. Order and matching are job.h's.
//
// Collectives by messages. On request, a collective is not one flow but the transfers of its plan, begun when all
// members have come: each message costs `message_latency`, moves as a flow among all others, and leaves when what it
// waits for has arrived (transfer_graph.h); the collective ends with its last one. Nothing is folded then, and its
// messages are in memory while it is under way. Alone on a fabric it takes as long as simulate_schedule says of its
// schedule, to the picosecond.
//
// Folding. Ranks are *alike* when they run the same program and, slot by slot, belong to groups that are alike and
// talk to ranks that are alike; groups when their members and the links of their footprints are; links when they have
// the same capacity and carry as much of each kind. One rank of each kind is simulated (see transfer_graph.h, whose
// argument holds here): 16,384 ranks of a training job are as many kinds as it has pipeline stages. Jobs with receives
// from anybody are not folded.
//
// Links that change. Events (link_events.h) set the bandwidth of links, take them down and bring them back. Links are
// alike only when the same happens to them at the same times. While a link is down,
//   stop: what crosses it waits until it returns.
//   move: a message takes another path of what is left of the fabric, a collective is expanded again on it; what was
//     under way keeps what it had still to move, as bytes of a message and as a fraction of a collective, and its
//     latency is not paid again. If there is no path (rerouting.h says when) it waits: for its own path, or for
//     another. A flow that has moved does not move back, one that starts after the return takes the ordinary path. Each
//     message of a collective by messages that would cross a failed link takes another path for itself.
//   fail: jobs that have something on it end, at the failure or as soon as something of theirs would cross it. The
//     rest of the job is left out, and links carry what had moved by then.
// At one moment flows end first, and messages of collectives that waited for them leave. Then links change. Then nodes
// that took their duration end, jobs begin, and all that may start does. A collective without bytes (a barrier) loads
// no link and does not notice its failure.
//
// Complexity: O(log n) a node, and a fluid event for each collective and message that is simulated. Memory: 8 bytes for
// each node that is simulated, and the footprints of what is under way; by messages, some 200 for each tree edge that
// is under way. A moment at which links change costs the hops of all that is under way, and, to move, a routing and
// plans of the fabric that is left for each set of changed links.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/job/check.h"
#include "banyan/job/job.h"
#include "banyan/predict/collective/footprint.h"
#include "banyan/predict/collective/schedule_simulation.h"
#include "banyan/predict/simulation/link_events.h"
#include "banyan/predict/simulation/prediction.h"
#include "banyan/predict/simulation/rerouting.h"

namespace banyan::predict {

enum class CollectivesAs : uint8_t {
  flow,      // one flow each
  messages,  // all of their messages
};
// "flow", "messages". Throws Error{invalid_input} with both.
CollectivesAs parse_collectives_as(std::string_view text);

struct PlacedJob {
  const Job* job = nullptr;        // outlives the simulation
  std::vector<NodeId> nodes = {};  // by rank of the job: the fabric's rank it stands on; several may share one
  std::string name = {};           // for reports; empty: the job's
  std::string tenant = {};         // for reports
  Picoseconds start{0};
  double weight = 1;     // of its flows
  uint8_t priority = 0;  // lower is served first
};

struct JobSimulationOptions {
  CollectivePlans* plans = nullptr;  // not nullptr
  CollectivesAs collectives = CollectivesAs::flow;
  Picoseconds message_latency = std::chrono::microseconds(5);  // besides that of links
  // Indexed by link of the fabric: the share of its bandwidth that protocols reach, above 0; empty: all of it.
  std::vector<double> link_efficiency = {};
  double message_efficiency = 1;  // of the narrowest link
  Bytes eager = job::kEager;      // messages up to this need no receive to begin
  Picoseconds window{0};
  std::vector<LinkEvent> events = {};
  OnFailure on_failure = OnFailure::stop;
  PlansOnFabric plans_for = {};  // of collectives that move: plans like `plans`, for what is left of the fabric
  double compute_speed = 1;      // of devices: durations of computes and memory moves are divided by it, but for what
                                 // of them is fixed; the host takes what it takes
  bool fold = true;
  size_t most_spans = 1'000'000;  // kept for pictures; 0: none
  SimulationObserver* observer = nullptr;
};

struct JobSimulation {
  Prediction prediction;
  uint64_t nodes = 0, nodes_simulated = 0;
  uint32_t rank_kinds = 0;
  uint64_t collective_messages = 0;  // of collectives that were carried out by messages
};

// Throws Error{invalid_input} when a job does not come to its end, with the ranks and nodes that wait (check.h says
// more, and sooner), or the links that have failed for good, Error{mismatch} when members of a group call different
// collectives, and what `plans` throws, Error{unsupported} of a collective that has no messages among it.
JobSimulation simulate_jobs(const Fabric& fabric, const std::vector<PlacedJob>& jobs,
                            const JobSimulationOptions& options);

}  // namespace banyan::predict
