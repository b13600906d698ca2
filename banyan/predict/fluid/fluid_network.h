// FluidNetwork: flows that share links max-min fairly, in virtual time.
//
// The problem. A *link* has a capacity. A *flow* has so many bytes to move, crosses some links, each with a coefficient
// (bytes on the link per byte of the flow: 1 for every link of an ordinary route), and may have a cap on its rate. At
// every moment the rates are the weighted max-min fair ones: let a flow's *level* be its rate / its weight; no level
// can be raised without lowering one that is not higher. Equivalently, and this is what the tests check without knowing
// how the rates came about: no link carries more than its capacity, and every flow runs at its cap or crosses a
// *bottleneck*, a link that is full and on which no flow has a higher level (Bertsekas, Gallager: Data
// Networks, 6.5.2). Flows of a higher priority are served as if those of lower ones did not exist.
//
// Events. Rates change only when a flow starts or ends or a link changes. After an event only what can change is solved
// again (max_min.h). A flow of zero bytes, or of no links, takes its latency and no more.
//
// Multiplicity. A flow may stand for m equal ones on the same links; `bytes`, `weight`, cap and rate are of one of
// them. It may stand for equal ones on *different* links, too, by symmetry, if the links given here are representatives
// of classes: see transfer_graph.h.
//
// Windows. With a window w > 0, flows that would end, at their rates of now, within w of the first that ends, all end
// together, at the mean of their own ends weighted by rate. So what some send too little others send too much, and in
// sum no byte is lost. The answer is the exact one of flows whose sizes differ by window_error(): at most w seconds of
// the rate that it ends with for any flow. That is how the error is bounded, and a test makes these sizes and compares.
//
// Time is in whole picoseconds; an end is rounded up. Rates and remaining bytes are doubles, computed in an order that
// depends on the input alone: same calls, same answers. Largest time 2^62 ps (53 days); beyond, Error{unsupported}.
//
// Complexity: an event costs, for each link whose level may change, the links that the flows which it holds back cross,
// each once, however many flows these are; and the logarithm of how many a link holds (max_min.h). One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "banyan/base/units.h"

namespace banyan::predict {

// A slot that is used again after its flow has ended.
enum class FlowId : uint32_t {};
constexpr uint32_t index(FlowId id) { return static_cast<uint32_t>(id); }

// A link that a flow crosses (any numbering; of a Fabric: index(LinkId)), and bytes there per byte of the flow.
struct FluidHop {
  uint32_t link = 0;
  double coefficient = 1;
};

struct FluidFlow {
  std::span<const FluidHop> hops = {};  // no link twice; copied
  double bytes = 0;
  Picoseconds latency{0};  // before the first byte moves
  double weight = 1;
  Bandwidth cap = {};  // zero: none
  uint32_t multiplicity = 1;
  uint8_t priority = 0;  // lower is served first
  uint64_t tag = 0;      // the caller's own
};

struct FluidEnd {
  FlowId flow;  // free again
  uint64_t tag = 0;
  double moved = 0;  // bytes of one of its multiplicity: what was asked, but for windows
};

struct WindowError {
  double bytes = 0;       // of all flows: the sum of how much their sizes differ from those asked
  double of_all = 0;      // the same over all bytes asked
  double worst_flow = 0;  // the most that any flow's size differs, of its own size
};

class FluidNetwork {
 public:
  struct Options {
    Picoseconds window{0};
  };
  // Capacities in bytes per second by link; zero is a link that is down.
  FluidNetwork(std::vector<double> capacities, const Options& options);
  ~FluidNetwork();

  Picoseconds now() const;

  // At now(). The spans of `flow` are read in the call only.
  FlowId start(const FluidFlow& flow);
  // Takes a flow away before its end. Returns the bytes that it had still to move.
  double stop(FlowId flow);
  // Puts a flow, with what it has still to move, onto other links.
  void move(FlowId flow, std::span<const FluidHop> hops);
  void set_capacity(uint32_t link, double bytes_per_second);

  // The time at which the next flow ends or begins to move; kNever if none will: nothing is under way, or all that is
  // has no capacity.
  static constexpr Picoseconds kNever{int64_t{1} << 62};
  Picoseconds next();
  // Goes on to `time`, which must be in now() .. next(); returns the flows that end there, in order of their ids. The
  // span is good until the next call.
  std::span<const FluidEnd> advance(Picoseconds time);

  // The state at now().
  double rate(FlowId flow);       // bytes per second of one of its multiplicity
  double remaining(FlowId flow);  // bytes of one of its multiplicity
  std::span<const FlowId> flows_on(uint32_t link);
  double used(uint32_t link);  // bytes per second
  double capacity(uint32_t link) const;

  // Totals until now(): bytes that crossed the link, and the time for which nothing of its capacity was left.
  double bytes_carried(uint32_t link);
  Picoseconds time_full(uint32_t link);

  size_t flow_count() const;  // under way
  WindowError window_error() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace banyan::predict
