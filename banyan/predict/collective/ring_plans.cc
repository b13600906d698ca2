#include <algorithm>
#include <bit>
#include <cmath>
#include <map>

#include "banyan/base/check.h"
#include "banyan/plan/baselines/library_rings.h"
#include "banyan/predict/collective/footprint.h"

namespace banyan::predict {
namespace {

constexpr double kLeastSliceOfChain = 8 << 10, kMostSlicesOfChain = 1 << 16;

// Bytes by link, while they are summed up.
class Loads {
 public:
  void add(const std::vector<LinkId>& way, double bytes) {
    for (const LinkId link : way) bytes_[index(link)] += bytes;
  }
  std::vector<FluidHop> hops() const {
    std::vector<FluidHop> hops;
    for (const auto& [link, bytes] : bytes_) {
      if (bytes > 0) hops.push_back({link, bytes});
    }
    return hops;
  }

 private:
  std::map<uint32_t, double> bytes_;
};

class RingPlans : public CollectivePlans, public CollectiveMessages {
 public:
  RingPlans(const Fabric& fabric, const RingCosts& costs)
      : fabric_(fabric), costs_(costs), rings_(fabric_), routing_(fabric) {}

  Footprint footprint(const CollectiveCall& call) override {
    CHECK(call.members.size() >= 2) << call.members.size() << " members";
    return scheduled_kind(call.kind) ? ring(call) : direct(call);
  }

  CollectiveMessages* messages() override { return this; }

  TransferGraph transfers(const CollectiveCall& call, Picoseconds alpha) override {
    CHECK(call.members.size() >= 2) << call.members.size() << " members";
    if (!scheduled_kind(call.kind)) return direct_transfers(call, alpha);
    const Schedule schedule = this->schedule(call);
    const bool is_chain = schedule.collective().is_rooted();
    const Bytes slice = is_chain ? chain_slice(schedule, call, alpha) : Bytes(std::max<uint64_t>(1, call.bytes));
    return TransferGraph::of(schedule, {.total = Bytes(call.bytes), .slice = slice, .alpha = alpha, .fold = false});
  }

  // A chunk for each ring, of each member that is a root: the chains along the ring that lead to it and away from it.
  Schedule schedule(const CollectiveCall& call) {
    const Collective collective = collective_of(fabric_, call);
    const std::vector<Order> rings = rings_.of(rings_.by_box(call.members));
    const size_t n = call.members.size(), roots = collective.is_rooted() ? 1 : n;
    const size_t phases = size_t{collective.reduces()} + size_t{collective.spreads()};
    expect_few_transfers(call, uint64_t{rings.size()} * roots * phases * (n - 1));
    Schedule::Builder builder(fabric_, collective);
    std::vector<std::vector<RouteId>> hops;  // by ring and place: to the next place
    for (const Order& ring : rings) {
      hops.emplace_back();
      for (size_t i = 0; i < n; ++i) hops.back().push_back(builder.add_route(way(ring[i], ring[(i + 1) % n])));
    }
    std::vector<RouteId> in_tree, out_tree;
    for (size_t member = 0; member < n; ++member) {
      const NodeId root = call.members[member];
      if (collective.is_rooted() && root != collective.root()) continue;
      for (size_t r = 0; r < rings.size(); ++r) {
        const size_t at = static_cast<size_t>(std::ranges::find(rings[r], root) - rings[r].begin());
        in_tree.clear();
        out_tree.clear();
        for (size_t i = 0; i + 1 < n; ++i) {
          if (collective.reduces()) in_tree.push_back(hops[r][(at + 1 + i) % n]);
          if (collective.spreads()) out_tree.push_back(hops[r][(at + i) % n]);
        }
        builder.add_chunk({.root = root, .units = 1, .in_tree = in_tree, .out_tree = out_tree});
      }
    }
    return std::move(builder).build();
  }

 private:
  using Order = plan::LibraryRings::Order;

  const std::vector<LinkId>& way(NodeId from, NodeId to) {
    way_.clear();
    routing_.find(from, to, 0, way_);
    return way_;
  }

  // ---- Straight from rank to rank

  // Visits the pairs of members of which one sends a part of the bytes to the other.
  template <typename Visit>
  static void for_each_pair(const CollectiveCall& call, Visit visit) {
    const size_t n = call.members.size();
    for (size_t from = 0; from < n; ++from) {
      for (size_t to = 0; to < n; ++to) {
        if (from == to || (call.kind == CollectiveKind::gather && to != call.root) ||
            (call.kind == CollectiveKind::scatter && from != call.root)) {
          continue;
        }
        visit(call.members[from], call.members[to]);
      }
    }
  }
  static double part_of(const CollectiveCall& call) {
    return static_cast<double>(call.bytes) / static_cast<double>(call.members.size());
  }

  Footprint direct(const CollectiveCall& call) {
    Loads loads;
    bool leaves = false;
    for_each_pair(call, [&](NodeId from, NodeId to) {
      loads.add(way(from, to), part_of(call));
      leaves |= rings_.box_of(from) != rings_.box_of(to);
    });
    return {.latency = costs_.launch + (leaves ? costs_.step_between : costs_.step_inside),
            .efficiency = leaves ? costs_.efficiency_between : costs_.efficiency_inside,
            .hops = loads.hops()};
  }

  TransferGraph direct_transfers(const CollectiveCall& call, Picoseconds alpha) {
    uint64_t count = 0;
    for_each_pair(call, [&](NodeId, NodeId) { ++count; });
    expect_few_transfers(call, count);
    std::vector<TransferGraph::Direct> transfers;
    for_each_pair(call, [&](NodeId from, NodeId to) {
      transfers.push_back({.from = from, .to = to, .way = way(from, to), .bytes = part_of(call)});
    });
    return TransferGraph::of(fabric_, transfers, {.slice = Bytes(std::max<uint64_t>(1, call.bytes)), .alpha = alpha});
  }

  // ---- Rings

  Footprint ring(const CollectiveCall& call) {
    const std::vector<Order> boxes = rings_.by_box(call.members);
    const std::vector<Order> rings = rings_.of(boxes);
    const bool is_chain = is_rooted(call.kind);
    const double bytes = busbw_factor(call.kind, call.members.size()) * static_cast<double>(call.bytes) /
                         static_cast<double>(rings.size());
    Loads loads;
    for (const Order& ring : rings) {
      // A chain begins at the root (broadcast), or ends there (reduce): all hops but one.
      const size_t root = static_cast<size_t>(std::ranges::find(ring, call.members[call.root]) - ring.begin());
      for (size_t i = 0; i < ring.size(); ++i) {
        const size_t next = (i + 1) % ring.size();
        if (is_chain && (call.kind == CollectiveKind::broadcast ? next : i) == root) continue;
        loads.add(way(ring[i], ring[next]), bytes);
      }
    }
    const bool leaves = boxes.size() > 1;
    return {.latency = costs_.launch + latency(call.kind, boxes),
            .efficiency = leaves ? costs_.efficiency_between : costs_.efficiency_inside,
            .hops = call.bytes == 0 ? std::vector<FluidHop>() : loads.hops()};
  }

  // S slices of a chain of n ranks take (S + n - 2) * (alpha + bytes / S / bandwidth), least at S^2 = (n - 2) * bytes /
  // (bandwidth * alpha).
  Bytes chain_slice(const Schedule& schedule, const CollectiveCall& call, Picoseconds alpha) const {
    if (call.members.size() == 2) return Bytes(std::max<uint64_t>(1, call.bytes));
    double narrowest = static_cast<double>(Bandwidth::kMaxBytesPerSecond);
    for (uint32_t r = 0; r < schedule.route_count(); ++r) {
      for (const LinkId link : schedule.route(RouteId{r}).links) {
        narrowest = std::min(narrowest, static_cast<double>(fabric_.link(link).bandwidth.bytes_per_second()));
      }
    }
    const double bytes = static_cast<double>(call.bytes) / static_cast<double>(schedule.chunk_count());
    const double cost = narrowest * static_cast<double>(alpha.count()) * 1e-12;  // bytes in the time of alpha
    const double slice = std::sqrt(bytes * cost / (static_cast<double>(call.members.size()) - 2));
    const double least = std::max(kLeastSliceOfChain, bytes / kMostSlicesOfChain);
    return Bytes(static_cast<uint64_t>(std::clamp(slice, least, std::max(least, bytes))));
  }

  // Of the quicker of rings and trees, both of which move the same bytes (but for 1/n of them) over the same cards.
  Picoseconds latency(CollectiveKind kind, const std::vector<Order>& boxes) const {
    size_t members = 0, largest = 0;
    for (const Order& box : boxes) {
      members += box.size();
      largest = std::max(largest, box.size());
    }
    const int64_t between = static_cast<int64_t>(boxes.size() > 1 ? boxes.size() : 0);
    const int64_t inside = static_cast<int64_t>(members) - between;
    const bool twice = kind == CollectiveKind::all_reduce || kind == CollectiveKind::barrier;
    const Picoseconds ring = (inside * costs_.step_inside + between * costs_.step_between) * (twice ? 2 : 1);
    if (kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter) return ring;
    const auto levels = [](size_t count) { return static_cast<int64_t>(std::bit_width(count - 1)); };
    const Picoseconds tree =
        (levels(largest) * costs_.step_inside + levels(boxes.size()) * costs_.step_between) * (twice ? 2 : 1);
    return std::min(ring, tree);
  }

  const Fabric fabric_;
  const RingCosts costs_;
  plan::LibraryRings rings_;
  fabric::Routing routing_;
  std::vector<LinkId> way_;
};

}  // namespace

std::unique_ptr<CollectivePlans> make_ring_plans(const Fabric& fabric, const RingCosts& costs) {
  return std::make_unique<RingPlans>(fabric, costs);
}

Schedule ring_schedule(const Fabric& fabric, const CollectiveCall& call) {
  return RingPlans(fabric, RingCosts()).schedule(call);
}

}  // namespace banyan::predict
