#include "banyan/plan/bound/narrowest_cut.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/plan/graph/cut_condition.h"
#include "banyan/plan/graph/network.h"

namespace banyan::plan {
namespace {

// The ratio |shards that must cross| / bandwidth of a cut, in network units: weight over bandwidth.
struct Ratio {
  int64_t weight = 0, bandwidth = 0;
  friend bool operator<(const Ratio& a, const Ratio& b) {
    return int128{a.weight} * b.bandwidth < int128{b.weight} * a.bandwidth;
  }
};

Ratio ratio_into(const Network& network, const Collective& collective, const VertexSet& sink_side) {
  // All that is rooted outside must cross into the sink side.
  Ratio ratio;
  for (uint32_t t = 0; t < network.terminal_count(); ++t) {
    if (!sink_side[t]) ratio.weight += static_cast<int64_t>(collective.weights()[t]);
  }
  for (uint32_t a = 0; a < network.arcs().size(); ++a) {
    const Arc& arc = network.arcs()[a];
    if (sink_side[arc.head] && !sink_side[arc.tail]) ratio.bandwidth += network.bandwidths()[a];
  }
  return ratio;
}

std::vector<uint8_t> reachable(const Network& network, uint32_t start, bool backwards) {
  std::vector<uint8_t> seen(network.vertex_count(), 0);
  for (const uint32_t v : network.reached_from({start}, backwards)) seen[v] = 1;
  return seen;
}

// Newton's iteration, from the singletons' ratios upwards; each violated cut has a larger ratio, so it replaces the
// guess. Terminals that passed at a smaller ratio pass at a larger one.
class BottleneckSearch {
 public:
  BottleneckSearch(const Network& network, const Collective& collective) : network_(network), collective_(collective) {}

  VertexSet find() {
    // The first guess; then each violated cut is a better one. Ratios rise strictly and there are finitely many cuts.
    start_at_the_narrowest_terminal();
    scale();
    CutCondition condition(network_);
    condition.repair({.capacity = capacity_, .supply = supply_}, [&](const VertexSet& sink_side) {
      const Ratio found = ratio_into(network_, collective_, sink_side);
      CHECK(best_ < found) << "cut ratio " << found.weight << "/" << found.bandwidth << " after " << best_.weight << "/"
                           << best_.bandwidth;
      best_ = found;
      sink_side_ = sink_side;
      scale();
    });
    return sink_side_;
  }

 private:
  void start_at_the_narrowest_terminal() {
    for (uint32_t t = 0; t < network_.terminal_count(); ++t) {
      // A terminal alone must take in all that others root.
      VertexSet alone(network_.vertex_count(), 0);
      alone[t] = 1;
      Ratio ratio{.weight = static_cast<int64_t>(collective_.total_weight() - collective_.weights()[t])};
      for (const uint32_t a : network_.in_arcs(t)) ratio.bandwidth += network_.bandwidths()[a];
      // The largest ratio of all single terminals is the guess to begin with.
      if (ratio.weight == 0 || (best_.weight > 0 && !(best_ < ratio))) continue;
      best_ = ratio;
      sink_side_ = std::move(alone);
    }
  }

  // Scales to the guess p/q: an arc may carry p * bandwidth, a terminal supplies q * weight.
  void scale() {
    // Lowest terms, so that flows stay countable.
    const int64_t common = std::gcd(best_.weight, best_.bandwidth);
    const int64_t p = best_.weight / common, q = best_.bandwidth / common;
    int128 total = 0;
    for (const int64_t bandwidth : network_.bandwidths()) total += bandwidth;
    constexpr int128 kLimit = int128{1} << 60;
    if (total * p > kLimit || int128{q} * static_cast<int128>(collective_.total_weight()) > kLimit) {
      throw Error(
          ErrorCode::unsupported,
          "the bandwidths are so diverse that exact capacities need more than 60 bits; round them to fewer digits");
    }
    capacity_.resize(network_.arcs().size());
    supply_.resize(network_.terminal_count());
    for (size_t a = 0; a < capacity_.size(); ++a) capacity_[a] = p * network_.bandwidths()[a];
    for (size_t t = 0; t < supply_.size(); ++t) supply_[t] = q * static_cast<int64_t>(collective_.weights()[t]);
  }

  const Network& network_;
  const Collective& collective_;
  Ratio best_;
  VertexSet sink_side_;
  std::vector<int64_t> capacity_, supply_;
};

}  // namespace

void check_connected(const Network& network, const Fabric& fabric, const Collective& collective) {
  uint32_t first = 0;
  while (collective.weights()[first] == 0) ++first;
  const std::vector<uint8_t> forth = reachable(network, first, false), back = reachable(network, first, true);
  for (uint32_t t = 0; t < network.terminal_count(); ++t) {
    // The first must reach everybody; each that has weight must reach the first, and through it all others.
    if (forth[t] && (back[t] || collective.weights()[t] == 0)) continue;
    throw invalid("ranks '" + fabric.name(network.node_of(first)) + "' and '" + fabric.name(network.node_of(t)) +
                  "' can only reach each other through ranks that do not take part; add those to --ranks");
  }
}

// For gathering the network is reversed: what must be received there is what must be sent here.
CutWitness narrowest_cut(const Fabric& fabric, const Collective& collective, bool gathering, PlanObserver* observer) {
  const Network network(fabric, collective, gathering, observer);
  check_connected(network, fabric, collective);
  return narrowest_cut(network, collective, gathering);
}

CutWitness narrowest_cut(const Network& network, const Collective& collective, bool gathering) {
  // The search says who must receive; the witness names the other side, who must send.
  const VertexSet sink_side = BottleneckSearch(network, collective).find();
  const Ratio ratio = ratio_into(network, collective, sink_side);
  CutWitness witness{.gathering = gathering,
                     .inside = {},
                     .crossing_weight = static_cast<uint64_t>(ratio.weight),
                     .total_weight = collective.total_weight(),
                     .bytes_per_second = static_cast<uint64_t>(ratio.bandwidth) * network.unit()};
  for (uint32_t v = 0; v < network.vertex_count(); ++v) {
    if (!sink_side[v]) witness.inside.push_back(network.node_of(v));
  }
  std::sort(witness.inside.begin(), witness.inside.end());
  return witness;
}

std::string name_list(const Fabric& fabric, std::vector<NodeId> ids) {
  std::sort(ids.begin(), ids.end());
  std::string text;
  // A name is a stem and the number at its end, if it has one.
  const auto split = [&](NodeId id) {
    const std::string& name = fabric.name(id);
    size_t digits = name.size();
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9') --digits;
    long number = -1;
    std::from_chars(name.data() + digits, name.data() + name.size(), number);
    return std::pair(name.substr(0, digits), number);
  };
  for (size_t i = 0; i < ids.size();) {
    size_t end = i + 1;
    auto [stem, number] = split(ids[i]);
    // A run goes on while only the final number differs, by one each time.
    for (; end < ids.size(); ++end) {
      const auto next = split(ids[end]);
      if (number < 0 || next.first != stem || next.second != number + 1) break;
      number = next.second;
    }
    if (!text.empty()) text += ", ";
    text += fabric.name(ids[i]);
    if (end > i + 1) text += (end == i + 2 ? ", " : "-") + fabric.name(ids[end - 1]);
    i = end;
    if (text.size() > 160 && i < ids.size()) return text + " and " + std::to_string(ids.size() - i) + " more";
  }
  return text;
}

namespace {

// By node: participants and switches.
std::vector<uint8_t> nodes_present(const Fabric& fabric, const Collective& collective) {
  std::vector<uint8_t> present(fabric.nodes().size(), 0);
  for (uint32_t v = 0; v < present.size(); ++v) present[v] = !fabric.is_rank(NodeId{v});
  for (const NodeId id : collective.participants()) present[index(id)] = 1;
  return present;
}

}  // namespace

std::vector<LinkId> links_of_cut(const CutWitness& witness, const Fabric& fabric, const Collective& collective) {
  const std::vector<uint8_t> present = nodes_present(fabric, collective);
  std::vector<uint8_t> inside(present.size(), 0);
  for (const NodeId id : witness.inside) inside[index(id)] = 1;
  std::vector<LinkId> links;
  for (uint32_t number = 0; number < fabric.links().size(); ++number) {
    const Link& link = fabric.link(LinkId{number});
    // Gathering turns links round.
    const NodeId near = witness.gathering ? link.to : link.from, far = witness.gathering ? link.from : link.to;
    if (present[index(near)] && present[index(far)] && inside[index(near)] && !inside[index(far)])
      links.push_back(LinkId{number});
  }
  return links;
}

bool holds_as_cut(const CutWitness& witness, const Fabric& fabric, const Collective& collective) {
  const std::vector<uint8_t> present = nodes_present(fabric, collective);
  std::vector<uint8_t> inside(present.size(), 0);
  for (const NodeId id : witness.inside) {
    if (index(id) >= inside.size() || !present[index(id)] || inside[index(id)]) return false;
    inside[index(id)] = 1;
  }
  // The sums are counted anew on the fabric: some participant is outside, and what is inside must cross.
  uint64_t weight = 0;
  bool some_outside = false;
  for (size_t i = 0; i < collective.participants().size(); ++i) {
    const bool is_inside = inside[index(collective.participants()[i])];
    if (is_inside) weight += collective.weights()[i];
    some_outside |= !is_inside;
  }
  unsigned __int128 bandwidth = 0;
  for (const LinkId id : links_of_cut(witness, fabric, collective))
    bandwidth += fabric.link(id).bandwidth.bytes_per_second();
  return some_outside && weight == witness.crossing_weight && collective.total_weight() == witness.total_weight &&
         bandwidth == witness.bytes_per_second;
}

std::string describe_cut(const CutWitness& witness, const Fabric& fabric, const Collective& collective) {
  std::vector<uint8_t> inside(fabric.nodes().size(), 0);
  for (const NodeId id : witness.inside) inside[index(id)] = 1;
  std::vector<NodeId> near, far;
  for (const NodeId id : collective.participants()) (inside[index(id)] ? near : far).push_back(id);
  // People are told of the smaller side.
  const bool from_far = far.size() < near.size();
  const std::vector<NodeId>& side = from_far ? far : near;
  // Sending out of `inside` while spreading is receiving on the other side; gathering turns both round.
  const bool sends = witness.gathering == from_far;
  std::string amount;
  if (collective.is_rooted() || collective.kind() == CollectiveKind::all_reduce) {
    amount =
        witness.crossing_weight == witness.total_weight
            ? "the whole buffer"
            : std::to_string(witness.crossing_weight) + "/" + std::to_string(witness.total_weight) + " of the buffer";
  } else {
    amount = std::to_string(witness.crossing_weight) + " of " + std::to_string(witness.total_weight) + " shards";
  }
  return (side.size() == 1 ? "rank " : "ranks ") + name_list(fabric, side) + " must " + (sends ? "send " : "receive ") +
         amount + (sends ? " out over " : " over ") + Bandwidth::bytes_per_second(witness.bytes_per_second).to_string();
}

}  // namespace banyan::plan
