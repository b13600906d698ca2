#include "banyan/plan/baselines/baseline_order.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "banyan/base/error.h"
#include "banyan/fabric/boxes.h"

namespace banyan::plan {
namespace {

// A search looks at every pair of places first.
constexpr size_t kMaxSearchedRanks = 4096;

using Hop = std::function<bool(uint32_t from, uint32_t to)>;  // whether a hop between two participants may be used

bool all_hops(const std::vector<uint32_t>& order, const Hop& may_hop, bool closed) {
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    if (!may_hop(order[i], order[i + 1])) return false;
  }
  return !closed || order.size() < 2 || may_hop(order.back(), order.front());
}

// The members in an order found by search; a path starts at the first member.
OrderSearch search(const std::vector<uint32_t>& members, const Hop& may_hop, bool closed) {
  OrderQuestion question{.successors = std::vector<std::vector<uint32_t>>(members.size()), .closed = closed};
  for (uint32_t i = 0; i < members.size(); ++i) {
    for (uint32_t j = 0; j < members.size(); ++j) {
      if (i != j && may_hop(members[i], members[j])) question.successors[i].push_back(j);
    }
  }
  OrderSearch found = find_order(question);
  for (uint32_t& place : found.order) place = members[place];
  return found;
}

// A ring through the members by such hops if there is one, else a path, else nothing.
std::vector<uint32_t> ring_or_path(const std::vector<uint32_t>& members, const Hop& may_hop) {
  for (const bool closed : {true, false}) {
    if (all_hops(members, may_hop, closed)) return members;
    if (members.size() > kMaxSearchedRanks) continue;
    if (OrderSearch found = search(members, may_hop, closed); !found.order.empty()) return found.order;
  }
  return {};
}

std::vector<uint32_t> in_participants_order(const Collective& collective) {
  std::vector<uint32_t> order(collective.participants().size());
  std::iota(order.begin(), order.end(), 0);
  return order;
}

Hop any_hop(fabric::Routing& routes, const Collective& collective) {
  return [&](uint32_t from, uint32_t to) {
    return routes.width(collective.participants()[from], collective.participants()[to]).has_value();
  };
}

Hop hop_of_width(fabric::Routing& routes, const Collective& collective, Bandwidth least) {
  return [&routes, &collective, least](uint32_t from, uint32_t to) {
    const auto width = routes.width(collective.participants()[from], collective.participants()[to]);
    return width && *width >= least;
  };
}

Error no_ring(fabric::Routing& routes, const Fabric& fabric, const Collective& collective, bool exhausted) {
  const auto participants = collective.participants();
  std::string message = exhausted ? "no ring passes all " : "no ring was found through all ";
  message += std::to_string(participants.size()) + " ranks without passing through a rank between two of them";
  for (size_t i = 0; i < participants.size(); ++i) {
    const NodeId from = participants[i], to = participants[(i + 1) % participants.size()];
    if (routes.width(from, to)) continue;
    message +=
        "; in the order of the ranks there is no such route from " + fabric.name(from) + " to " + fabric.name(to);
    break;
  }
  return Error(ErrorCode::unsupported, message);
}

}  // namespace

std::vector<std::vector<uint32_t>> box_orders(fabric::Routing& routes, const Fabric& fabric,
                                              const Collective& collective) {
  const fabric::Boxes boxes = find_boxes(fabric);
  std::vector<uint32_t> place_of_box(boxes.count(), fabric::Boxes::kNone);
  std::vector<std::vector<uint32_t>> result;
  for (uint32_t i = 0; i < collective.participants().size(); ++i) {
    uint32_t& place = place_of_box[boxes.box_of[index(collective.participants()[i])]];
    if (place == fabric::Boxes::kNone) {
      place = static_cast<uint32_t>(result.size());
      result.emplace_back();
    }
    result[place].push_back(i);
  }
  if (result.size() == 1) return result;
  // A hop inside a box is much wider than what joins the boxes, else as wide at least. Where neither can be, the order
  // stays.
  const uint64_t joining = joining_bandwidth(fabric).bytes_per_second();
  for (std::vector<uint32_t>& box : result) {
    for (const uint64_t least : {fabric::kBoxTier * joining, joining}) {
      const Hop near = hop_of_width(routes, collective, Bandwidth::bytes_per_second(least));
      std::vector<uint32_t> order = ring_or_path(box, near);
      if (order.empty()) continue;
      box = std::move(order);
      break;
    }
  }
  return result;
}

std::vector<uint32_t> ring_order(fabric::Routing& routes, const Fabric& fabric, const Collective& collective) {
  const Hop any = any_hop(routes, collective);
  std::vector<uint32_t> order;
  if (const auto boxes = box_orders(routes, fabric, collective); boxes.size() > 1) {
    for (const auto& box : boxes) order.insert(order.end(), box.begin(), box.end());
    if (all_hops(order, any, true)) return order;
  }
  order = in_participants_order(collective);
  const Hop wide = hop_of_width(routes, collective, joining_bandwidth(fabric));
  if (all_hops(order, wide, true)) return order;
  const bool searchable = order.size() <= kMaxSearchedRanks;
  if (searchable) {
    if (OrderSearch found = search(order, wide, true); !found.order.empty()) return found.order;
  }
  if (all_hops(order, any, true)) return order;
  OrderSearch found;
  if (searchable) found = search(order, any, true);
  if (found.order.empty()) throw no_ring(routes, fabric, collective, found.exhausted);
  return found.order;
}

std::vector<uint32_t> path_order(fabric::Routing& routes, const Collective& collective) {
  std::vector<uint32_t> members = in_participants_order(collective);
  if (members.size() > kMaxSearchedRanks) return {};
  const auto root = std::find(collective.participants().begin(), collective.participants().end(), collective.root());
  std::rotate(members.begin(), members.begin() + (root - collective.participants().begin()), members.end());
  const Hop any = any_hop(routes, collective);
  // For reduce the path is walked towards the root, so each hop is asked for the other way round.
  const Hop towards = [&](uint32_t from, uint32_t to) { return any(to, from); };
  return search(members, collective.kind() == CollectiveKind::reduce ? towards : any, false).order;
}

}  // namespace banyan::plan
