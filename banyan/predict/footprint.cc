#include "banyan/predict/footprint.h"

#include <algorithm>
#include <bit>
#include <map>

#include "banyan/base/check.h"
#include "banyan/schedule/cost.h"

namespace banyan {
namespace {

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

class RingPlans : public CollectivePlans {
 public:
  RingPlans(const Fabric& fabric, const RingCosts& costs)
      : fabric_(fabric), costs_(costs), boxes_(find_boxes(fabric)), routing_(fabric) {}

  Footprint footprint(const CollectiveCall& call) override {
    CHECK(call.members.size() >= 2) << call.members.size() << " members";
    switch (call.kind) {
      case JobCollective::all_to_all:
        return direct(call, [&](size_t from, size_t to) { return from != to; });
      case JobCollective::gather:
        return direct(call, [&](size_t from, size_t to) { return to == call.root && from != to; });
      case JobCollective::scatter:
        return direct(call, [&](size_t from, size_t to) { return from == call.root && from != to; });
      default:
        return ring(call);
    }
  }

 private:
  using Order = std::vector<NodeId>;

  uint32_t box_of(NodeId rank) const { return boxes_.box_of[index(rank)]; }

  template <typename Sends>
  Footprint direct(const CollectiveCall& call, Sends sends) {
    const size_t n = call.members.size();
    Loads loads;
    bool leaves = false;
    for (size_t from = 0; from < n; ++from) {
      for (size_t to = 0; to < n; ++to) {
        if (!sends(from, to)) continue;
        way_.clear();
        routing_.find(call.members[from], call.members[to], 0, way_);
        loads.add(way_, static_cast<double>(call.bytes) / static_cast<double>(n));
        leaves |= box_of(call.members[from]) != box_of(call.members[to]);
      }
    }
    return {.latency = costs_.launch + (leaves ? costs_.step_between : costs_.step_inside),
            .efficiency = leaves ? costs_.efficiency_between : costs_.efficiency_inside,
            .hops = loads.hops()};
  }

  // The members by box, each box in the group's order; boxes in the order of their first members.
  std::vector<Order> by_box(std::span<const NodeId> members) const {
    std::vector<Order> parts;
    std::map<uint32_t, size_t> place;
    for (const NodeId member : members) {
      const auto [found, is_new] = place.emplace(box_of(member), parts.size());
      if (is_new) parts.emplace_back();
      parts[found->second].push_back(member);
    }
    return parts;
  }

  // One ring for each member of a box. Ring c goes up from member c in every other box and down in the others, so that
  // it leaves a box where it enters the next.
  static std::vector<Order> rings_of(const std::vector<Order>& boxes) {
    const size_t each = boxes.front().size();
    const bool even = std::all_of(boxes.begin(), boxes.end(), [&](const Order& box) { return box.size() == each; });
    std::vector<Order> rings(boxes.size() > 1 && even ? each : 1);
    for (size_t c = 0; c < rings.size(); ++c) {
      for (size_t b = 0; b < boxes.size(); ++b) {
        const size_t size = boxes[b].size();
        for (size_t i = 0; i < size; ++i) {
          rings[c].push_back(boxes[b][b % 2 == 0 ? (c + i) % size : (c + size - 1 + size - i) % size]);
        }
      }
    }
    return rings;
  }

  Footprint ring(const CollectiveCall& call) {
    const std::vector<Order> boxes = by_box(call.members);
    const std::vector<Order> rings = rings_of(boxes);
    const double n = static_cast<double>(call.members.size());
    const bool is_chain = call.kind == JobCollective::broadcast || call.kind == JobCollective::reduce;
    const double per_hop = call.kind == JobCollective::all_reduce ? 2 * (n - 1) / n
                           : call.kind == JobCollective::barrier  ? 0
                           : is_chain                             ? 1
                                                                  : (n - 1) / n;
    const double bytes = per_hop * static_cast<double>(call.bytes) / static_cast<double>(rings.size());
    Loads loads;
    for (const Order& ring : rings) {
      // A chain begins at the root (broadcast), or ends there (reduce): all hops but one.
      const size_t root =
          static_cast<size_t>(std::find(ring.begin(), ring.end(), call.members[call.root]) - ring.begin());
      for (size_t i = 0; i < ring.size(); ++i) {
        const size_t next = (i + 1) % ring.size();
        if (is_chain && (call.kind == JobCollective::broadcast ? next : i) == root) continue;
        way_.clear();
        routing_.find(ring[i], ring[next], 0, way_);
        loads.add(way_, bytes);
      }
    }
    const bool leaves = boxes.size() > 1;
    return {.latency = costs_.launch + latency(call.kind, boxes),
            .efficiency = leaves ? costs_.efficiency_between : costs_.efficiency_inside,
            .hops = call.bytes == 0 ? std::vector<FluidHop>() : loads.hops()};
  }

  // Of the quicker of rings and trees, both of which move the same bytes (but for 1/n of them) over the same cards.
  Picoseconds latency(JobCollective kind, const std::vector<Order>& boxes) const {
    size_t members = 0, largest = 0;
    for (const Order& box : boxes) {
      members += box.size();
      largest = std::max(largest, box.size());
    }
    const int64_t between = static_cast<int64_t>(boxes.size() > 1 ? boxes.size() : 0);
    const int64_t inside = static_cast<int64_t>(members) - between;
    const bool twice = kind == JobCollective::all_reduce || kind == JobCollective::barrier;
    const Picoseconds ring = (inside * costs_.step_inside + between * costs_.step_between) * (twice ? 2 : 1);
    if (kind == JobCollective::all_gather || kind == JobCollective::reduce_scatter) return ring;
    const auto levels = [](size_t count) { return static_cast<int64_t>(std::bit_width(count - 1)); };
    const Picoseconds tree =
        (levels(largest) * costs_.step_inside + levels(boxes.size()) * costs_.step_between) * (twice ? 2 : 1);
    return std::min(ring, tree);
  }

  const Fabric fabric_;
  const RingCosts costs_;
  const Boxes boxes_;
  Routing routing_;
  std::vector<LinkId> way_;
};

}  // namespace

std::unique_ptr<CollectivePlans> make_ring_plans(const Fabric& fabric, const RingCosts& costs) {
  return std::make_unique<RingPlans>(fabric, costs);
}

Footprint footprint_of(const Schedule& schedule, uint64_t bytes, Picoseconds alpha) {
  Footprint footprint;
  footprint.latency = alpha * static_cast<int64_t>(heights(schedule).max);
  const std::vector<uint64_t> loads = link_loads(schedule);
  for (uint32_t link = 0; link < loads.size(); ++link) {
    if (loads[link] == 0) continue;
    footprint.hops.push_back({link, static_cast<double>(bytes) * static_cast<double>(loads[link]) /
                                        static_cast<double>(schedule.total_units())});
  }
  return footprint;
}

}  // namespace banyan
