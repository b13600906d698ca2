// TransferGraph: the transfers of a schedule, as a simulator carries them out; equal ones folded into one.
//
// A *transfer* sends its slices one after the other along its hops. It may send slice k when every transfer that it
// needs has delivered slice k, so a chunk flows through its trees slice by slice, and spreading overlaps reducing. Each
// message costs `alpha` before its first byte, during which the transfer sends nothing else, and `delay` (the latency
// of its links) after its last, during which it does.
//
// Folding. Two transfers are *alike* when they carry as many bytes, need transfers that are alike, and cross links that
// are alike; two links are alike when they have the same capacity and as many transfers of each kind cross them. Such a
// partition is found by colour refinement: everything gets a colour from the colours of what it depends on, again and
// again, until no colour splits. Alike transfers then move at the same rates and end at the same times, by induction
// over the events: fair rates depend on nothing else. So one of each kind is kept, on one link of each kind, which it
// crosses as often (FluidHop::coefficient) as its kind crosses each of these links. The answer is the same and costs
// what the kinds cost: a ring allreduce of 1,024 ranks has 2.1 million transfers, and 2,046 kinds of them.
// Colours are 64-bit hashes: of 2 million transfers, two that differ are called alike once in 10 million graphs.
//
// Work. Slices may be written in a code, which takes time of the cores of the ranks. A core is one more link, of
// kCoreRate nanoseconds a second, and what is done to the slices of an edge are transfers of their own that cross it:
// a contributor encodes, the receiver decodes and adds; the root encodes the result once and decodes it for itself; a
// rank that passes it on does so at once, and decodes it besides. The engine does the same (run/engine/slice_codec.h).
//
// Complexity O(edges + hops of routes) a round; rounds are few, since trees
// are walked from their leaves, so that a colour knows all that lies below it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/schedule/schedule.h"

namespace banyan::predict {

struct FoldedTransfer {
  double bytes = 0;     // of a slice
  uint32_t slices = 1;  // 0: nothing to send, it only waits for all that it needs
  Picoseconds alpha{0};
  Picoseconds delay{0};
  uint32_t from = 0, to = 0;  // nodes of the fabric; of the first that it stands for
  uint64_t stands_for = 1;    // transfers of the schedule
  bool is_work = false;       // of the core of `from`: bytes are nanoseconds
};

// Nanoseconds of a core for a byte on the wire.
struct SliceWork {
  double encode = 0, decode = 0, decode_add = 0;
};
constexpr double kCoreRate = 1e9;

class TransferGraph {
 public:
  struct Options {
    Bytes total;
    Bytes slice;           // no message is longer
    Picoseconds alpha{0};  // of a message
    bool fold = true;
    std::optional<SliceWork> work = {};  // then steps do not count: slices of different chunks travel alone
  };
  // Every pair of ranks that the schedule's steps tie (see Chunk::in_steps) sends one message for all edges that are
  // tied; a schedule with steps is not folded.
  static TransferGraph of(const Schedule& schedule, const Options& options);

  // Transfers that need none of the others; nothing is folded.
  struct Direct {
    NodeId from{}, to{};
    std::vector<LinkId> way = {};
    double bytes = 0;
  };
  struct Messages {
    Bytes slice;           // none is longer
    Picoseconds alpha{0};  // of each
  };
  static TransferGraph of(const Fabric& fabric, std::span<const Direct> transfers, const Messages& messages);

  std::span<const FoldedTransfer> transfers() const { return transfers_; }
  std::span<const FluidHop> hops(uint32_t transfer) const { return part(hops_, hops_start_, transfer); }
  std::span<const uint32_t> needs(uint32_t transfer) const { return part(needs_, needs_start_, transfer); }

  // The transfers that need it.
  std::span<const uint32_t> dependents(uint32_t transfer) const {
    return part(dependents_, dependents_start_, transfer);
  }

  // Links of the graph: kinds of the fabric's links, or these themselves when nothing was folded.
  std::span<const double> capacities() const { return capacities_; }
  // Indexed by link of the graph: the first link of the fabric that it stands for, kUnused for a core.
  std::span<const uint32_t> first_links() const { return first_links_; }
  // Indexed by link of the fabric: its kind, kUnused for one that no transfer crosses.
  static constexpr uint32_t kUnused = UINT32_MAX;
  std::span<const uint32_t> kind_of_link() const { return kind_of_link_; }
  // Links of the graph from this one on are cores, none without work.
  uint32_t first_core() const { return first_core_; }

 private:
  friend class TransferGraphBuilder;

  template <typename T>
  static std::span<const T> part(const std::vector<T>& all, const std::vector<uint64_t>& start, uint32_t i) {
    return std::span(all).subspan(start[i], start[i + 1] - start[i]);
  }

  void list_dependents();

  std::vector<FoldedTransfer> transfers_;
  std::vector<FluidHop> hops_;
  std::vector<uint32_t> needs_, dependents_, first_links_;
  std::vector<uint64_t> hops_start_{0}, needs_start_{0}, dependents_start_;
  std::vector<double> capacities_;
  std::vector<uint32_t> kind_of_link_;
  uint32_t first_core_ = UINT32_MAX;
};

}  // namespace banyan::predict
