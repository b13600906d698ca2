#include "banyan/plan/bound/cuts_witness.h"

#include <algorithm>
#include <unordered_map>

#include "banyan/plan/bound/narrowest_cut.h"

namespace banyan::plan {
namespace {

constexpr size_t kMostCutsTold = 6;
constexpr int64_t kMostTimes = int64_t{1} << 40;  // so that sums over all cuts and links stay below 2^127

// Which vertices of the network a list of nodes names, or nothing when one of them is absent or named twice.
std::optional<std::vector<uint8_t>> marked(const Network& network, const std::unordered_map<uint32_t, uint32_t>& at,
                                           const std::vector<NodeId>& nodes) {
  std::vector<uint8_t> marks(network.vertex_count(), 0);
  for (const NodeId node : nodes) {
    const auto found = at.find(index(node));
    if (found == at.end() || marks[found->second]) return std::nullopt;
    marks[found->second] = 1;
  }
  return marks;
}

ArcClasses classes_for(const CutsWitness& witness, const Network& network, const Fabric& fabric) {
  return witness.over_images ? ArcClasses(network, fabric) : ArcClasses::alone(network);
}

// What the cuts charge.
struct Charges {
  std::vector<int128> costs = {};  // by class of arcs: what crossing all of it costs at most; twice that if mirrored
  std::vector<int128> crossings = {};  // by class of vertices: the cuts around them
  bool mirrored = false;
};

// Of given roots, where nothing is taken to be alike.
std::optional<ProvenByCuts> of_mean_piece(std::span<const int128> crossings, std::span<const uint64_t> weights,
                                          int128 total, const Network& network) {
  int128 sum = 0, all = 0;
  for (uint32_t t = 0; t < weights.size(); ++t) {
    sum += crossings[t] * static_cast<int128>(weights[t]);
    all += static_cast<int128>(weights[t]);
  }
  if (total == 0 || sum == 0) return std::nullopt;
  return ProvenByCuts{.crossings = Fraction(sum, all),
                      .bytes_per_second = Fraction(total, 1) * Fraction(static_cast<int128>(network.unit()), 1)};
}

// Whether all of it is of the one direction that the collective has.
bool is_of_direction(const CutsWitness& witness, bool gathering) {
  const auto fits = [&](const auto& part) { return part.gathering == gathering; };
  return std::ranges::all_of(witness.cuts, fits) && std::ranges::all_of(witness.potentials, fits);
}

std::optional<ProvenByCuts> proven(const CutsWitness& witness, const Fabric& fabric, const Collective& collective) {
  const Network network(fabric, collective, false);
  // An allreduce chooses its roots and has two directions. The roots of others are given, and all is of one direction.
  if (collective.kind() == CollectiveKind::all_reduce)
    return count_crossings(witness, fabric, network, classes_for(witness, network, fabric));
  if (collective.is_personal() || witness.over_images || !is_of_direction(witness, collective.reduces()))
    return std::nullopt;
  return count_crossings(witness, fabric, network, ArcClasses::alone(network), collective.weights());
}

std::optional<Charges> charges_of(const CutsWitness& witness, const Fabric& fabric, const Network& network,
                                  const ArcClasses& classes) {
  std::unordered_map<uint32_t, uint32_t> at;
  for (uint32_t v = 0; v < network.vertex_count(); ++v) at[index(network.node_of(v))] = v;
  // By class of arcs: what all of them cost together, for spreading and for gathering.
  std::vector<int128> spread(classes.arc_classes(), 0), gather(classes.arc_classes(), 0);
  std::vector<int128> crossings(classes.vertex_classes(), 0);
  for (const CutsWitness::Cut& cut : witness.cuts) {
    // A piece that is rooted inside must come to somebody outside, so it crosses the cut once at least.
    const auto inside = marked(network, at, cut.inside);
    if (!inside || cut.times < 1 || cut.times > kMostTimes) return std::nullopt;
    bool some_outside = false;
    for (uint32_t t = 0; t < network.participant_count(); ++t) {
      if ((*inside)[t]) crossings[classes.of_vertex(t)] += cut.times;
      some_outside |= !(*inside)[t];
    }
    if (!some_outside) return std::nullopt;
    for (uint32_t a = 0; a < network.arcs().size(); ++a) {
      const auto& [tail, head, link] = network.arcs()[a];
      // Arcs out of the set are charged; gathering turns them round.
      const uint32_t near = cut.gathering ? head : tail, far = cut.gathering ? tail : head;
      if ((*inside)[near] && !(*inside)[far]) (cut.gathering ? gather : spread)[classes.of_arc(a)] += cut.times;
    }
  }
  for (const CutsWitness::Potential& potential : witness.potentials) {
    // A potential charges what enters a switch and pays back what leaves it: nothing in all where the switch only
    // passes on. That fails where trees of its direction branch.
    const auto v = at.find(index(potential.at));
    if (v == at.end() || network.is_participant(v->second) || std::abs(potential.height) > kMostTimes) {
      return std::nullopt;
    }
    const Node& node = fabric.node(potential.at);
    if (potential.gathering ? node.reduce : node.multicast) return std::nullopt;
    std::vector<int128>& costs = potential.gathering ? gather : spread;
    for (const uint32_t a : network.in_arcs(v->second)) costs[classes.of_arc(a)] += potential.height;
    for (const uint32_t a : network.out_arcs(v->second)) costs[classes.of_arc(a)] -= potential.height;
  }
  // A link carries either direction's pieces, so a crossing of it counts the dearer of both at most.
  Charges charges{.crossings = std::move(crossings), .mirrored = witness.over_images && classes.is_symmetric()};
  for (uint32_t c = 0; c < classes.arc_classes(); ++c) {
    int128 one = spread[c], other = gather[c];
    if (charges.mirrored) {
      one += gather[classes.opposite(c)];
      other += spread[classes.opposite(c)];
    }
    charges.costs.push_back(std::max({one, other, int128{0}}));
  }
  return charges;
}

}  // namespace

std::optional<ProvenByCuts> count_crossings(const CutsWitness& witness, const Fabric& fabric, const Network& network,
                                            const ArcClasses& classes, std::span<const uint64_t> weights) {
  const auto charges = charges_of(witness, fabric, network, classes);
  if (!charges) return std::nullopt;
  const std::vector<int128>& crossings = charges->crossings;
  std::vector<int64_t> bandwidth(classes.arc_classes(), 0);
  for (uint32_t a = 0; a < network.arcs().size(); ++a) bandwidth[classes.of_arc(a)] = network.bandwidths()[a];
  // All links together, each as dear as one crossing of it counts at most.
  int128 total = 0;  // mirrored: twice as much
  for (uint32_t c = 0; c < classes.arc_classes(); ++c) total += charges->costs[c] * bandwidth[c];
  if (!weights.empty()) return of_mean_piece(crossings, weights, total, network);
  // An allreduce may root pieces anywhere, so the root whose pieces cross least counts: the mean of its class.
  std::optional<Fraction> least;
  for (uint32_t t = 0; t < network.participant_count(); ++t) {
    const uint32_t c = classes.of_vertex(t);
    const Fraction mean(crossings[c], classes.vertex_size(c));
    if (!least || mean < *least) least = mean;
  }
  if (total == 0 || !(Fraction(0) < *least)) return std::nullopt;
  return ProvenByCuts{.crossings = *least,
                      .bytes_per_second = Fraction(total, charges->mirrored ? 2 : 1) *
                                          Fraction(static_cast<int128>(network.unit()), 1)};
}

bool holds_as_cuts(const CutsWitness& witness, const Fabric& fabric, const Collective& collective) {
  const auto sums = proven(witness, fabric, collective);
  return sums && sums->seconds_per_byte() == witness.bound;
}

std::vector<LinkId> links_of_cuts(const CutsWitness& witness, const Fabric& fabric, const Collective& collective) {
  const Network network(fabric, collective, false);
  const ArcClasses classes = classes_for(witness, network, fabric);
  const auto charges = charges_of(witness, fabric, network, classes);
  std::vector<LinkId> links;
  for (uint32_t a = 0; charges && a < network.arcs().size(); ++a) {
    if (charges->costs[classes.of_arc(a)] > 0) links.push_back(network.arcs()[a].link);
  }
  return links;
}

std::string describe_cuts(const CutsWitness& witness, const Fabric& fabric, const Collective& collective) {
  const auto sums = proven(witness, fabric, collective);
  if (!sums) return "cuts that prove nothing";
  std::vector<uint8_t> takes_part(fabric.nodes().size(), 0);
  for (const NodeId id : collective.participants()) takes_part[index(id)] = 1;
  std::vector<std::string> names;  // of the smaller side of each cut, once
  for (const CutsWitness::Cut& cut : witness.cuts) {
    std::vector<uint8_t> inside(fabric.nodes().size(), 0);
    for (const NodeId id : cut.inside) inside[index(id)] = 1;
    std::vector<NodeId> near, far;
    for (const NodeId id : collective.participants()) (inside[index(id)] ? near : far).push_back(id);
    const std::string name = name_list(fabric, far.size() <= near.size() ? far : near);
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string list;
  for (size_t i = 0; i < names.size() && i < kMostCutsTold; ++i) list += (i == 0 ? "" : "; ") + names[i];
  if (names.size() > kMostCutsTold) list += "; and " + std::to_string(names.size() - kMostCutsTold) + " more";
  // Scaled so that one crossing counts once: by the least multiplicity.
  int64_t least = kMostTimes;
  for (const CutsWitness::Cut& cut : witness.cuts) least = std::min(least, cut.times);
  const double crossings = sums->crossings.to_double() / static_cast<double>(least);
  const double rate = sums->bytes_per_second.to_double() / static_cast<double>(least);
  char number[32];
  std::snprintf(number, sizeof number, "%.6g", crossings);
  const std::string how = !collective.reduces() ? "spread" : !collective.spreads() ? "summed" : "summed and spread";
  std::vector<NodeId> switches;
  for (const CutsWitness::Potential& potential : witness.potentials) switches.push_back(potential.at);
  const bool one_direction = !collective.reduces() || !collective.spreads();
  return "a piece that is " + how + " crosses the cuts around " + list +
         (witness.over_images ? " and all that are like them" : "") + " at least " + number +
         " times, each counted by its weight, and so counted their links carry " +
         Bandwidth::bytes_per_second(static_cast<uint64_t>(rate)).to_string() + " together" +
         (one_direction && !switches.empty() ? ", as " + name_list(fabric, switches) + " must give out what comes in"
                                             : "");
}

}  // namespace banyan::plan
