#include "banyan/predict/transfer_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "banyan/base/check.h"

namespace banyan {
namespace {

using Colour = uint64_t;

constexpr int kMostRounds = 40;

// The finaliser of splitmix64, and what it makes of two: the order matters.
Colour mixed(Colour x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
Colour mixed(Colour a, Colour b) { return mixed(a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019); }

// A hash map whose keys are hashes already.
class NumberOfColour {
 public:
  // The number that the colour was added with, now or before.
  uint32_t find_or_add(Colour colour, uint32_t number) {
    if (2 * count_ >= slots_.size()) grow();
    size_t at = colour & (slots_.size() - 1);
    while (slots_[at].number != kFree && slots_[at].colour != colour) at = (at + 1) & (slots_.size() - 1);
    if (slots_[at].number == kFree) {
      slots_[at] = {colour, number};
      ++count_;
    }
    return slots_[at].number;
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Slot {
    Colour colour = 0;
    uint32_t number = kFree;
  };
  void grow() {
    std::vector<Slot> old(std::max<size_t>(1024, 2 * slots_.size()));
    old.swap(slots_);
    count_ = 0;
    for (const Slot& slot : old) {
      if (slot.number != kFree) find_or_add(slot.colour, slot.number);
    }
  }
  std::vector<Slot> slots_;
  size_t count_ = 0;
};

enum Mark : Colour { kInEdge = 1, kOutEdge, kJoint, kLink };

}  // namespace

class TransferGraphBuilder {
 public:
  TransferGraphBuilder(const Schedule& schedule, const TransferGraph::Options& options)
      : schedule_(schedule), fabric_(schedule.fabric()), options_(options) {
    for (uint32_t r = 0; r < schedule.route_count(); ++r) {
      const Route route = schedule.route(RouteId{r});
      Picoseconds delay{0};
      for (const LinkId link : route.links) delay += fabric_.link(link).latency;
      routes_.push_back({index(route.from), index(route.to), delay});
    }
    for (size_t i = 0; i < schedule.chunk_count(); ++i) {
      const Chunk chunk = schedule.chunk(i);
      edges_ += chunk.in_tree.size() + chunk.out_tree.size();
      has_steps_ |= !chunk.in_steps.empty() || !chunk.out_steps.empty();
    }
    CHECK(edges_ < UINT32_MAX) << edges_ << " tree edges";
    graph_.edge_count_ = edges_;
  }

  TransferGraph build() {
    if (has_steps_) {
      build_tied();
      return std::move(graph_);
    }
    if (options_.fold) fold();
    make_links();
    make_transfers();
    return std::move(graph_);
  }

 private:
  struct RouteRow {
    uint32_t from, to;
    Picoseconds delay;
  };
  struct Slicing {
    double bytes;
    uint32_t slices;
  };

  Slicing slicing(double bytes) const {
    const double slices = std::max(1.0, std::ceil(bytes / static_cast<double>(options_.slice.count()) - 1e-9));
    CHECK(slices < UINT32_MAX) << bytes << " bytes in slices of " << options_.slice.count();
    return {bytes / slices, static_cast<uint32_t>(slices)};
  }
  double bytes_of(const Chunk& chunk) const {
    return static_cast<double>(options_.total.count()) * static_cast<double>(chunk.units) /
           static_cast<double>(schedule_.total_units());
  }

  // ---- Folding

  // The colours of a chunk's edges, to be asked for in the order of its lists: from those of their routes and of what
  // they need.
  class ChunkColours {
   public:
    ChunkColours(const TransferGraphBuilder& builder, std::vector<Colour>& at_node, const Chunk& chunk)
        : builder_(builder),
          at_node_(at_node),
          chunk_(chunk),
          in_base_(mixed(chunk.units, kInEdge)),
          out_base_(mixed(chunk.units, kOutEdge)) {}
    Colour in_edge(RouteId route) {
      const RouteRow& row = builder_.routes_[index(route)];
      const Colour colour =
          mixed(in_base_ + builder_.route_colours_[index(route)], std::exchange(at_node_[row.from], 0));
      at_node_[row.to] += mixed(colour);
      return colour;
    }
    void root() { at_node_[index(chunk_.root)] = mixed(at_node_[index(chunk_.root)], kJoint); }
    Colour out_edge(RouteId route) {
      const RouteRow& row = builder_.routes_[index(route)];
      return at_node_[row.to] = mixed(out_base_ + builder_.route_colours_[index(route)], at_node_[row.from]);
    }
    void end() {
      at_node_[index(chunk_.root)] = 0;
      for (const RouteId route : chunk_.out_tree) at_node_[builder_.routes_[index(route)].to] = 0;
    }

   private:
    const TransferGraphBuilder& builder_;
    std::vector<Colour>& at_node_;  // by node, what has arrived there; all zero between chunks
    const Chunk& chunk_;
    const Colour in_base_, out_base_;
  };

  void colour_routes() {
    for (uint32_t r = 0; r < routes_.size(); ++r) {
      Colour sum = static_cast<Colour>(routes_[r].delay.count());
      for (const LinkId link : schedule_.route(RouteId{r}).links) sum += mixed(link_colours_[index(link)]);
      route_colours_[r] = mixed(sum);
    }
  }

  // The sum of the colours of the edges on each route.
  void colour_edges() {
    std::fill(on_route_.begin(), on_route_.end(), 0);
    for (size_t i = 0; i < schedule_.chunk_count(); ++i) {
      const Chunk chunk = schedule_.chunk(i);
      ChunkColours colours(*this, at_node_, chunk);
      for (const RouteId route : chunk.in_tree) on_route_[index(route)] += mixed(colours.in_edge(route));
      colours.root();
      for (const RouteId route : chunk.out_tree) on_route_[index(route)] += mixed(colours.out_edge(route));
      colours.end();
    }
  }

  void colour_links() {
    std::vector<Colour> sums(fabric_.links().size(), 0);
    for (uint32_t r = 0; r < routes_.size(); ++r) {
      for (const LinkId link : schedule_.route(RouteId{r}).links) sums[index(link)] += on_route_[r];
    }
    for (size_t link = 0; link < sums.size(); ++link) {
      link_colours_[link] =
          sums[link] == 0 ? 0 : mixed(mixed(kLink, fabric_.links()[link].bandwidth.bytes_per_second()), sums[link]);
    }
    colour_routes();
  }

  static size_t count_kinds(const std::vector<Colour>& colours) {
    return std::unordered_set<Colour>(colours.begin(), colours.end()).size();
  }

  void fold() {
    at_node_.assign(fabric_.nodes().size(), 0);
    on_route_.resize(routes_.size());
    route_colours_.resize(routes_.size());
    link_colours_.resize(fabric_.links().size());
    for (size_t link = 0; link < link_colours_.size(); ++link) {
      link_colours_[link] = mixed(kLink, fabric_.links()[link].bandwidth.bytes_per_second());
    }
    colour_routes();
    size_t link_kinds = 0;
    for (int round = 0; round < kMostRounds; ++round) {
      colour_edges();
      colour_links();
      // Colours are made of those of the round before, so they can only split. When the links' do not, nothing will.
      const size_t kinds = count_kinds(link_colours_);
      is_folded_ = round > 0 && kinds == link_kinds;
      if (is_folded_) return;
      link_kinds = kinds;
    }
  }

  // ---- The graph

  void make_links() {
    graph_.kind_of_link_.assign(fabric_.links().size(), TransferGraph::kUnused);
    std::vector<bool> is_used(fabric_.links().size(), false);
    for (uint32_t r = 0; r < routes_.size(); ++r) {
      for (const LinkId link : schedule_.route(RouteId{r}).links) is_used[index(link)] = true;
    }
    std::unordered_map<Colour, uint32_t> kinds;
    for (uint32_t link = 0; link < is_used.size(); ++link) {
      if (!is_used[link] || (is_folded_ && link_colours_[link] == 0)) continue;
      uint32_t kind = static_cast<uint32_t>(graph_.capacities_.size());
      if (is_folded_) kind = kinds.emplace(link_colours_[link], kind).first->second;
      if (kind == graph_.capacities_.size()) {
        graph_.capacities_.push_back(static_cast<double>(fabric_.links()[link].bandwidth.bytes_per_second()));
        links_of_kind_.push_back(0);
      }
      ++links_of_kind_[kind];
      graph_.kind_of_link_[link] = kind;
    }
  }

  uint32_t add(const FoldedTransfer& transfer, std::span<const uint32_t> needs) {
    graph_.transfers_.push_back(transfer);
    scratch_.assign(needs.begin(), needs.end());
    std::sort(scratch_.begin(), scratch_.end());
    scratch_.erase(std::unique(scratch_.begin(), scratch_.end()), scratch_.end());
    graph_.needs_.insert(graph_.needs_.end(), scratch_.begin(), scratch_.end());
    graph_.needs_start_.push_back(graph_.needs_.size());
    graph_.hops_start_.push_back(graph_.hops_.size());
    return static_cast<uint32_t>(graph_.transfers_.size() - 1);
  }

  void add_hops(RouteId route) {
    const size_t begin = graph_.hops_.size();
    for (const LinkId link : schedule_.route(route).links) {
      const uint32_t kind = graph_.kind_of_link_[index(link)];
      const auto same = std::find_if(graph_.hops_.begin() + static_cast<ptrdiff_t>(begin), graph_.hops_.end(),
                                     [&](const FluidHop& hop) { return hop.link == kind; });
      if (same != graph_.hops_.end()) {
        same->coefficient += 1;
      } else {
        graph_.hops_.push_back({kind, 1});
      }
    }
  }

  // The transfer of an edge: one for each colour, or, unfolded, one for each edge.
  uint32_t edge(Colour colour, RouteId route, const Slicing& slicing, std::span<const uint32_t> needs) {
    if (is_folded_) {
      const uint32_t known = of_colour_.find_or_add(colour, static_cast<uint32_t>(graph_.transfers_.size()));
      if (known < graph_.transfers_.size()) {
        ++graph_.transfers_[known].stands_for;
        return known;
      }
    }
    add_hops(route);
    return add({.bytes = slicing.bytes,
                .slices = slicing.slices,
                .alpha = options_.alpha,
                .delay = routes_[index(route)].delay},
               needs);
  }

  // All that arrive at the root, joined, so that what leaves it need not name each of them.
  uint32_t joint(const std::vector<uint32_t>& arrived, const Slicing& slicing) {
    if (arrived.size() == 1) return arrived.front();
    return add({.bytes = 0, .slices = slicing.slices, .stands_for = 0}, arrived);
  }

  void make_transfers() {
    std::vector<std::vector<uint32_t>> arrived(fabric_.nodes().size());  // of this chunk, by node
    std::map<std::vector<uint32_t>, uint32_t> joints;
    for (size_t i = 0; i < schedule_.chunk_count(); ++i) {
      const Chunk chunk = schedule_.chunk(i);
      ChunkColours colours(*this, at_node_, chunk);
      const Slicing slices = slicing(bytes_of(chunk));
      for (const RouteId route : chunk.in_tree) {
        const RouteRow& row = routes_[index(route)];
        const uint32_t transfer = edge(is_folded_ ? colours.in_edge(route) : 0, route, slices, arrived[row.from]);
        arrived[row.from].clear();
        std::vector<uint32_t>& there = arrived[row.to];
        if (std::find(there.begin(), there.end(), transfer) == there.end()) there.push_back(transfer);
      }
      std::vector<uint32_t>& root = arrived[index(chunk.root)];
      if (is_folded_) colours.root();
      if (root.size() > 1) {
        std::sort(root.begin(), root.end());
        auto known = joints.find(root);
        if (known == joints.end()) known = joints.emplace(root, joint(root, slices)).first;
        root = {known->second};
      }
      for (const RouteId route : chunk.out_tree) {
        const RouteRow& row = routes_[index(route)];
        arrived[row.to].assign(1, edge(is_folded_ ? colours.out_edge(route) : 0, route, slices, arrived[row.from]));
      }
      root.clear();
      for (const RouteId route : chunk.out_tree) arrived[routes_[index(route)].to].clear();
      if (is_folded_) colours.end();
    }
    if (!is_folded_) return;
    for (uint32_t transfer = 0; transfer < graph_.transfers_.size(); ++transfer) {
      const double members = static_cast<double>(graph_.transfers_[transfer].stands_for);
      for (uint64_t h = graph_.hops_start_[transfer]; h < graph_.hops_start_[transfer + 1]; ++h) {
        FluidHop& hop = graph_.hops_[h];
        hop.coefficient = hop.coefficient * members / static_cast<double>(links_of_kind_[hop.link]);
      }
    }
  }

  // ---- Schedules with steps: tied edges are one transfer

  struct Tie {
    std::vector<RouteId> routes;
    std::vector<double> bytes;
    std::vector<std::pair<size_t, uint32_t>> sources;  // chunk and node whose data it sends on
    bool is_in = false;
  };

  // Ties are numbered by their first edge; a need is a (chunk, node) whose arrivals are known once all are listed.
  void build_tied() {
    make_links();
    std::map<std::tuple<bool, uint32_t, uint32_t, uint32_t>, uint32_t> ties;  // phase, ends, step
    std::vector<Tie> all;
    std::map<std::pair<size_t, uint32_t>, std::vector<uint32_t>> in_arrivals, out_arrivals;  // at a node, of a chunk
    for (size_t i = 0; i < schedule_.chunk_count(); ++i) {
      const Chunk chunk = schedule_.chunk(i);
      for (const bool is_in : {true, false}) {
        const auto& tree = is_in ? chunk.in_tree : chunk.out_tree;
        const auto& steps = is_in ? chunk.in_steps : chunk.out_steps;
        for (size_t e = 0; e < tree.size(); ++e) {
          const RouteRow& row = routes_[index(tree[e])];
          const uint32_t step = steps.empty() ? 0 : steps[e];
          uint32_t tie = static_cast<uint32_t>(all.size());
          if (step != 0) tie = ties.emplace(std::tuple(is_in, row.from, row.to, step), tie).first->second;
          if (tie == all.size()) all.emplace_back().is_in = is_in;
          all[tie].routes.push_back(tree[e]);
          all[tie].bytes.push_back(bytes_of(chunk));
          all[tie].sources.emplace_back(i, row.from);
          (is_in ? in_arrivals : out_arrivals)[{i, row.to}].push_back(tie);
        }
      }
    }
    // All have as many slices, so that slice k of one needs slice k of the others.
    double longest = 0;
    for (const Tie& tie : all) {
      double sum = 0;
      for (const double bytes : tie.bytes) sum += bytes;
      longest = std::max(longest, sum);
    }
    const uint32_t slices = slicing(longest).slices;
    for (const Tie& tie : all) {
      std::vector<uint32_t> needs;
      for (const auto& source : tie.sources) {
        for (const auto* arrivals : {&in_arrivals, &out_arrivals}) {
          if (tie.is_in && arrivals == &out_arrivals) continue;
          const auto found = arrivals->find(source);
          if (found != arrivals->end()) needs.insert(needs.end(), found->second.begin(), found->second.end());
        }
      }
      add_tie(tie, slices, needs);
    }
  }

  void add_tie(const Tie& tie, uint32_t slices, std::span<const uint32_t> needs) {
    double sum = 0;
    for (const double bytes : tie.bytes) sum += bytes;
    Picoseconds delay{0};
    std::map<uint32_t, double> on_link;
    for (size_t e = 0; e < tie.routes.size(); ++e) {
      delay = std::max(delay, routes_[index(tie.routes[e])].delay);
      for (const LinkId link : schedule_.route(tie.routes[e]).links) {
        on_link[graph_.kind_of_link_[index(link)]] += tie.bytes[e];
      }
    }
    for (const auto& [link, bytes] : on_link) {
      graph_.hops_.push_back({link, sum > 0 ? bytes / sum : 1});
    }
    add({.bytes = sum / slices,
         .slices = slices,
         .alpha = options_.alpha,
         .delay = delay,
         .stands_for = tie.routes.size()},
        needs);
  }

  const Schedule& schedule_;
  const Fabric& fabric_;
  const TransferGraph::Options options_;
  std::vector<RouteRow> routes_;
  size_t edges_ = 0;
  bool has_steps_ = false, is_folded_ = false;
  std::vector<Colour> at_node_, on_route_, route_colours_, link_colours_;
  NumberOfColour of_colour_;
  std::vector<uint64_t> links_of_kind_;
  std::vector<uint32_t> scratch_;
  TransferGraph graph_;
};

TransferGraph TransferGraph::of(const Schedule& schedule, const Options& options) {
  CHECK(options.slice.count() > 0) << "slices of no bytes";
  return TransferGraphBuilder(schedule, options).build();
}

}  // namespace banyan
