#include "banyan/predict/collective/transfer_colours.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include "banyan/base/hash.h"

namespace banyan::predict {
namespace {

using Colour = TransferColours::Colour;

constexpr int kMostRounds = 40;

enum Mark : Colour { kInEdge = 1, kOutEdge, kJoint, kLink, kFromRank, kFromSwitch, kSends, kTakes, kRoots };

size_t count_kinds(const std::vector<Colour>& colours) {
  return std::unordered_set<Colour>(colours.begin(), colours.end()).size();
}

}  // namespace

TransferColours::OfChunk::OfChunk(TransferColours& colours, const Chunk& chunk)
    : colours_(colours),
      at_node_(colours.at_node_),
      chunk_(chunk),
      in_base_(mix(chunk.units, kInEdge)),
      out_base_(mix(chunk.units, kOutEdge)) {}

TransferColours::OfChunk::~OfChunk() {
  at_node_[index(chunk_.root)] = 0;
  for (const RouteId route : chunk_.out_tree) at_node_[colours_.routes_[index(route)].to] = 0;
}

Colour TransferColours::OfChunk::in_edge(RouteId route) {
  const RouteRow& row = colours_.routes_[index(route)];
  const Colour colour = mix(in_base_ + colours_.route_colours_[index(route)], std::exchange(at_node_[row.from], 0));
  at_node_[row.to] += mix(colour);
  return colour;
}

Colour TransferColours::OfChunk::root() {
  const uint32_t root = index(chunk_.root);
  const Colour colour = mix(mix(at_node_[root], kJoint), colours_.core_colours_[root]);
  return at_node_[root] = colours_.with_cores_ ? mix(out_base_, colour) : mix(at_node_[root], kJoint);
}

Colour TransferColours::OfChunk::out_edge(RouteId route) {
  const RouteRow& row = colours_.routes_[index(route)];
  return at_node_[row.to] = mix(out_base_ + colours_.route_colours_[index(route)], at_node_[row.from]);
}

TransferColours::TransferColours(const Schedule& schedule, std::span<const RouteRow> routes, bool with_cores)
    : schedule_(schedule),
      routes_(routes),
      with_cores_(with_cores),
      at_node_(schedule.fabric().nodes().size(), 0),
      on_route_(routes.size()),
      route_colours_(routes.size()),
      core_colours_(at_node_.size(), 0),
      at_roots_(at_node_.size(), 0) {
  for (const Link& link : schedule.fabric().links()) {
    link_colours_.push_back(mix(kLink, link.bandwidth.bytes_per_second()));
  }
  colour_routes();
}

bool TransferColours::refine() {
  size_t link_kinds = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    colour_edges();
    colour_links();
    if (with_cores_) colour_cores();
    colour_routes();
    // Colours are made of those of the round before, so they can only split. When the links' and the cores' do not,
    // nothing will.
    const size_t kinds = count_kinds(link_colours_) + count_kinds(core_colours_);
    if (round > 0 && kinds == link_kinds) return true;
    link_kinds = kinds;
  }
  return false;
}

void TransferColours::colour_routes() {
  for (uint32_t r = 0; r < routes_.size(); ++r) {
    // A message costs a rank its fixed time, a switch none.
    const bool from_rank = schedule_.fabric().is_rank(NodeId{routes_[r].from});
    Colour sum = mix(static_cast<Colour>(routes_[r].delay.count()), from_rank ? kFromRank : kFromSwitch);
    for (const LinkId link : schedule_.route(RouteId{r}).links) sum += mix(link_colours_[index(link)]);
    if (with_cores_) sum += mix(core_colours_[routes_[r].from], kSends) + mix(core_colours_[routes_[r].to], kTakes);
    route_colours_[r] = mix(sum);
  }
}

// The sum of the colours of the edges on each route.
void TransferColours::colour_edges() {
  std::fill(on_route_.begin(), on_route_.end(), 0);
  std::fill(at_roots_.begin(), at_roots_.end(), 0);
  for (size_t i = 0; i < schedule_.chunk_count(); ++i) {
    const Chunk chunk = schedule_.chunk(i);
    OfChunk colours(*this, chunk);
    for (const RouteId route : chunk.in_tree) on_route_[index(route)] += mix(colours.in_edge(route));
    at_roots_[index(chunk.root)] += mix(colours.root(), kRoots);
    for (const RouteId route : chunk.out_tree) on_route_[index(route)] += mix(colours.out_edge(route));
  }
}

void TransferColours::colour_links() {
  const std::span<const Link> links = schedule_.fabric().links();
  std::vector<Colour> sums(links.size(), 0);
  for (uint32_t r = 0; r < routes_.size(); ++r) {
    for (const LinkId link : schedule_.route(RouteId{r}).links) sums[index(link)] += on_route_[r];
  }
  for (size_t link = 0; link < sums.size(); ++link) {
    link_colours_[link] = sums[link] == 0 ? 0 : mix(mix(kLink, links[link].bandwidth.bytes_per_second()), sums[link]);
  }
}

void TransferColours::colour_cores() {
  core_colours_ = at_roots_;
  for (uint32_t r = 0; r < routes_.size(); ++r) {
    core_colours_[routes_[r].from] += mix(on_route_[r], kSends);
    core_colours_[routes_[r].to] += mix(on_route_[r], kTakes);
  }
}

}  // namespace banyan::predict
