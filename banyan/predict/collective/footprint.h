// Footprint: what a collective of one group puts on the links of a fabric, and how long it takes besides.
//
// A job's collectives are fluid: all bytes of one move together, in proportion, like one flow that crosses every link
// that the collective uses. That is what a pipelined execution with small slices converges to, and it costs one fluid
// event instead of one for every message. `latency` is what the messages cost, before the first byte.
//
// Footprints are made by a CollectivePlans: of rings as collective libraries make them (RingPlans), or of schedules.
// Plans may also say which messages a collective really is, for simulations that carry out each of them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/boxes.h"
#include "banyan/fabric/routing.h"
#include "banyan/job/job.h"
#include "banyan/predict/collective/transfer_graph.h"
#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/schedule/schedule.h"

namespace banyan::predict {

struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::span<const NodeId> members;  // in the order of the group
  uint32_t root = 0;                // its place among them
  uint64_t bytes = 0;               // total, as in job.h
};

struct Footprint {
  Picoseconds latency{0};
  double efficiency = 1;       // of the rate that its busiest link would allow it; above 0
  std::vector<FluidHop> hops;  // by link of the fabric: bytes there; by ascending link
};

// Collectives message by message.
class CollectiveMessages {
 public:
  virtual ~CollectiveMessages() = default;
  // The transfers among two or more members. Each message costs `alpha` besides its bytes and its links' latency.
  // Nothing is folded. A barrier is an allreduce of no bytes. Throws Error{unsupported} naming what cannot be
  // done, why, and what to use instead.
  virtual TransferGraph transfers(const CollectiveCall& call, Picoseconds alpha) = 0;
};

// Deterministic; may keep what it has found. One thread.
class CollectivePlans {
 public:
  virtual ~CollectivePlans() = default;
  // The footprint of a call of at least two members. Throws Error{unsupported} naming why if it cannot be done on this
  // fabric.
  virtual Footprint footprint(const CollectiveCall& call) = 0;
  // The same by messages, as long as these plans live; nullptr: they know none.
  virtual CollectiveMessages* messages() { return nullptr; }
};

// The cost of a step and of a byte, on top of the links' own.
struct RingCosts {
  Picoseconds launch = std::chrono::microseconds(5);        // of a collective, whatever its size
  Picoseconds step_inside = std::chrono::microseconds(1);   // of a message inside a box
  Picoseconds step_between = std::chrono::microseconds(5);  // of one between boxes
  double efficiency_inside = 1, efficiency_between = 1;     // of the busiest link's bandwidth
};

// Rings as collective libraries build them (plan/baselines/library_rings.h). All-to-all, gather and scatter go straight
// from rank to rank. Small allreduces, broadcasts and reduces take trees instead, whose steps are the
// logarithm of the boxes, where that is quicker.
//
// In simulations by messages, all but the straight ones take rings, however small, and a transfer straight from rank to
// rank is one message. So is a rank's shard of a ring on each hop; a chain of a broadcast or reduce goes in the pieces
// for which it is quickest.
// `costs` are those of flows.
std::unique_ptr<CollectivePlans> make_ring_plans(const Fabric& fabric, const RingCosts& costs);

// The schedule that ring plans carry out by messages, of a call that has a scheduled_kind().
Schedule ring_schedule(const Fabric& fabric, const CollectiveCall& call);

// The footprint of a call that takes this schedule: bytes by its trees, and `alpha`, without links' latency, for each
// hop of the highest tree.
Footprint footprint_of(const Schedule& schedule, uint64_t bytes, Picoseconds alpha);

// The kind whose schedule carries out `kind`: itself where it is planned, an allreduce for a barrier. Nothing for kinds
// that go straight from rank to rank.
std::optional<CollectiveKind> scheduled_kind(CollectiveKind kind);
// The collective of a call that has such a kind.
Collective collective_of(const Fabric& fabric, const CollectiveCall& call);

// Tree edges that one collective by messages may have: some 200 bytes each while it is under way.
constexpr uint64_t kMostTransfers = uint64_t{1} << 23;
// Throws Error{unsupported} that names the call and what to use instead.
void expect_few_transfers(const CollectiveCall& call, uint64_t transfers);

}  // namespace banyan::predict
