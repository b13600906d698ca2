#include "banyan/predict/collective/transfer_graph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/collective/transfer_colours.h"

namespace banyan::predict {
namespace {

using Colour = TransferColours::Colour;

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

struct Slicing {
  double bytes;
  uint32_t slices;
};
// Into equal slices that are no longer than `most`.
Slicing slicing_of(double bytes, Bytes most) {
  const double slices = std::max(1.0, std::ceil(bytes / static_cast<double>(most.count()) - 1e-9));
  if (slices >= UINT32_MAX) {
    throw Error(ErrorCode::unsupported,
                "slices of " + most.to_string() + " cut a chunk into more than 2^32 pieces; take longer slices");
  }
  return {bytes / slices, static_cast<uint32_t>(slices)};
}

// A switch adds up and copies elements, not codes.
void expect_no_switches_in_trees(const Schedule& schedule) {
  for (uint32_t r = 0; r < schedule.route_count(); ++r) {
    const Route route = schedule.route(RouteId{r});
    for (const NodeId end : {route.from, route.to}) {
      if (schedule.fabric().is_rank(end)) continue;
      throw Error(ErrorCode::unsupported, "this plan has the switch '" + schedule.fabric().name(end) +
                                              "' add up or copy slices, which works on elements and not on codes; use "
                                              "a fabric whose switches do neither");
    }
  }
}

}  // namespace

class TransferGraphBuilder {
 public:
  TransferGraphBuilder(const Schedule& schedule, const TransferGraph::Options& options)
      : schedule_(schedule),
        fabric_(schedule.fabric()),
        options_(options),
        carried_bytes_(static_cast<double>(options.total.count()) *
                       schedule.collective().carried_per_byte().to_double()) {
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
  }

  TransferGraph build() {
    if (has_steps_ && !options_.work) {
      build_tied();
      graph_.list_dependents();
      return std::move(graph_);
    }
    if (options_.fold) {
      colours_.emplace(schedule_, routes_, options_.work.has_value());
      if (!colours_->refine()) colours_.reset();
    }
    make_links();
    make_transfers();
    graph_.list_dependents();
    return std::move(graph_);
  }

 private:
  using RouteRow = TransferColours::RouteRow;
  Slicing slicing(double bytes) const { return slicing_of(bytes, options_.slice); }
  double bytes_of(const Chunk& chunk) const {
    return carried_bytes_ * static_cast<double>(chunk.units) / static_cast<double>(schedule_.total_units());
  }

  // What a switch multicasts or has reduced is no message of its own.
  Picoseconds alpha_of(RouteId route) const {
    return fabric_.is_rank(NodeId{routes_[index(route)].from}) ? options_.alpha : Picoseconds(0);
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
      if (!is_used[link] || (colours_ && colours_->link(link) == 0)) continue;
      uint32_t kind = static_cast<uint32_t>(graph_.capacities_.size());
      if (colours_) kind = kinds.emplace(colours_->link(link), kind).first->second;
      if (kind == graph_.capacities_.size()) {
        graph_.capacities_.push_back(static_cast<double>(fabric_.links()[link].bandwidth.bytes_per_second()));
        graph_.first_links_.push_back(link);
        links_of_kind_.push_back(0);
      }
      ++links_of_kind_[kind];
      graph_.kind_of_link_[link] = kind;
    }
    if (options_.work) make_cores();
  }

  // Ranks that are alike have one.
  void make_cores() {
    graph_.first_core_ = static_cast<uint32_t>(graph_.capacities_.size());
    core_of_.assign(fabric_.nodes().size(), TransferGraph::kUnused);
    std::unordered_map<Colour, uint32_t> kinds;
    for (const NodeId rank : fabric_.ranks()) {
      uint32_t kind = static_cast<uint32_t>(graph_.capacities_.size());
      if (colours_) kind = kinds.emplace(colours_->core(index(rank)), kind).first->second;
      if (kind == graph_.capacities_.size()) {
        graph_.capacities_.push_back(kCoreRate);
        graph_.first_links_.push_back(TransferGraph::kUnused);
        links_of_kind_.push_back(0);
      }
      ++links_of_kind_[kind];
      core_of_[index(rank)] = kind;
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
    if (const auto known = again(colour, 1)) return *known;
    return wire(route, slicing, needs);
  }

  uint32_t wire(RouteId route, const Slicing& slicing, std::span<const uint32_t> needs) {
    add_hops(route);
    return add({.bytes = slicing.bytes,
                .slices = slicing.slices,
                .alpha = alpha_of(route),
                .delay = routes_[index(route)].delay,
                .from = routes_[index(route)].from,
                .to = routes_[index(route)].to},
               needs);
  }

  // What a rank does to each slice.
  uint32_t work(uint32_t node, double nanoseconds_per_byte, const Slicing& slicing, std::span<const uint32_t> needs) {
    graph_.hops_.push_back({core_of_[node], 1});
    return add({.bytes = slicing.bytes * nanoseconds_per_byte,
                .slices = slicing.slices,
                .from = node,
                .to = node,
                .is_work = true},
               needs);
  }

  // Encoded, sent, decoded and added; each stands behind the other. Returns the last.
  uint32_t coded_in_edge(Colour colour, RouteId route, const Slicing& slicing, std::span<const uint32_t> needs) {
    if (const auto known = again(colour, 3)) return *known;
    const RouteRow& row = routes_[index(route)];
    const uint32_t encoded = work(row.from, options_.work->encode, slicing, needs);
    const uint32_t sent = wire(route, slicing, {&encoded, 1});
    return work(row.to, options_.work->decode_add, slicing, {&sent, 1});
  }

  // Sent on before it is decoded. Returns what is sent, behind which it is decoded.
  uint32_t coded_out_edge(Colour colour, RouteId route, const Slicing& slicing, std::span<const uint32_t> needs) {
    if (const auto known = again(colour, 2)) return *known - 1;
    const uint32_t sent = wire(route, slicing, needs);
    work(routes_[index(route)].to, options_.work->decode, slicing, {&sent, 1});
    return sent;
  }

  uint32_t coded_root(Colour colour, uint32_t root, const Slicing& slicing, std::span<const uint32_t> needs) {
    if (const auto known = again(colour, 2)) return *known - 1;
    const uint32_t encoded = work(root, options_.work->encode, slicing, needs);
    work(root, options_.work->decode, slicing, {&encoded, 1});
    return encoded;
  }

  // Where so many transfers, one behind the other, are known by this colour: the last of them, which stand for one
  // more. Else they are about to be added.
  std::optional<uint32_t> again(Colour colour, uint32_t count) {
    if (!colours_) return std::nullopt;
    const uint32_t known = of_colour_.find_or_add(colour, static_cast<uint32_t>(graph_.transfers_.size()));
    if (known == graph_.transfers_.size()) return std::nullopt;
    for (uint32_t i = 0; i < count; ++i) ++graph_.transfers_[known + i].stands_for;
    return known + count - 1;
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
      std::optional<TransferColours::OfChunk> colours;
      if (colours_) colours.emplace(*colours_, chunk);
      const Slicing slices = slicing(bytes_of(chunk));
      for (const RouteId route : chunk.in_tree) {
        const RouteRow& row = routes_[index(route)];
        const Colour colour = colours ? colours->in_edge(route) : 0;
        const uint32_t transfer = options_.work ? coded_in_edge(colour, route, slices, arrived[row.from])
                                                : edge(colour, route, slices, arrived[row.from]);
        arrived[row.from].clear();
        std::vector<uint32_t>& there = arrived[row.to];
        if (std::find(there.begin(), there.end(), transfer) == there.end()) there.push_back(transfer);
      }
      std::vector<uint32_t>& root = arrived[index(chunk.root)];
      const Colour of_root = colours ? colours->root() : 0;
      if (root.size() > 1) {
        std::sort(root.begin(), root.end());
        auto known = joints.find(root);
        if (known == joints.end()) known = joints.emplace(root, joint(root, slices)).first;
        root = {known->second};
      }
      if (options_.work && !chunk.out_tree.empty()) root = {coded_root(of_root, index(chunk.root), slices, root)};
      for (const RouteId route : chunk.out_tree) {
        const RouteRow& row = routes_[index(route)];
        const Colour colour = colours ? colours->out_edge(route) : 0;
        arrived[row.to].assign(1, options_.work ? coded_out_edge(colour, route, slices, arrived[row.from])
                                                : edge(colour, route, slices, arrived[row.from]));
      }
      root.clear();
      for (const RouteId route : chunk.out_tree) arrived[routes_[index(route)].to].clear();
    }
    if (!colours_) return;
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
         .alpha = alpha_of(tie.routes.front()),
         .delay = delay,
         .from = routes_[index(tie.routes.front())].from,
         .to = routes_[index(tie.routes.front())].to,
         .stands_for = tie.routes.size()},
        needs);
  }

  const Schedule& schedule_;
  const Fabric& fabric_;
  const TransferGraph::Options options_;
  const double carried_bytes_;  // by all chunks together
  std::vector<RouteRow> routes_;
  size_t edges_ = 0;
  bool has_steps_ = false;
  std::optional<TransferColours> colours_;  // where it is folded
  NumberOfColour of_colour_;
  std::vector<uint64_t> links_of_kind_;
  std::vector<uint32_t> core_of_;  // by node, with work: a link of the graph
  std::vector<uint32_t> scratch_;
  TransferGraph graph_;
};

void TransferGraph::list_dependents() {
  const uint32_t count = static_cast<uint32_t>(transfers_.size());
  dependents_start_.assign(count + 1, 0);
  for (const uint32_t needed : needs_) ++dependents_start_[needed + 1];
  for (uint32_t t = 0; t < count; ++t) dependents_start_[t + 1] += dependents_start_[t];
  dependents_.resize(dependents_start_[count]);
  std::vector<uint64_t> at(dependents_start_.begin(), dependents_start_.end() - 1);
  for (uint32_t t = 0; t < count; ++t) {
    for (const uint32_t needed : needs(t)) dependents_[at[needed]++] = t;
  }
}

TransferGraph TransferGraph::of(const Fabric& fabric, std::span<const Direct> transfers, const Messages& messages) {
  CHECK(messages.slice.count() > 0) << "slices of no bytes";
  TransferGraph graph;
  graph.kind_of_link_.assign(fabric.links().size(), kUnused);
  for (const Direct& transfer : transfers) {
    const Slicing slicing = slicing_of(transfer.bytes, messages.slice);
    FoldedTransfer row{.bytes = slicing.bytes,
                       .slices = slicing.slices,
                       .alpha = messages.alpha,
                       .from = index(transfer.from),
                       .to = index(transfer.to)};
    for (const LinkId link : transfer.way) {
      uint32_t& number = graph.kind_of_link_[index(link)];
      if (number == kUnused) {
        number = static_cast<uint32_t>(graph.capacities_.size());
        graph.capacities_.push_back(static_cast<double>(fabric.link(link).bandwidth.bytes_per_second()));
        graph.first_links_.push_back(index(link));
      }
      graph.hops_.push_back({number, 1});
      row.delay += fabric.link(link).latency;
    }
    graph.transfers_.push_back(row);
    graph.hops_start_.push_back(graph.hops_.size());
    graph.needs_start_.push_back(0);
  }
  graph.list_dependents();
  return graph;
}

TransferGraph TransferGraph::of(const Schedule& schedule, const Options& options) {
  CHECK(options.slice.count() > 0) << "slices of no bytes";
  if (options.work) expect_no_switches_in_trees(schedule);
  return TransferGraphBuilder(schedule, options).build();
}

}  // namespace banyan::predict
