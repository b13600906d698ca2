#include "banyan/run/engine/rank_plan.h"

#include <string>
#include <utility>

#include "banyan/base/error.h"

namespace banyan {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

struct Edge {
  uint32_t from = 0, to = 0;  // participants
};

class Compiler {
 public:
  Compiler(const Schedule& schedule, uint64_t elements)
      : schedule_(schedule),
        elements_(elements),
        participants_(schedule.collective().participants()),
        participant_of_(schedule.fabric().nodes().size(), kNobody),
        plans_(participants_.size()) {
    const auto ranks = static_cast<uint32_t>(participants_.size());
    for (uint32_t i = 0; i < ranks; ++i) {
      participant_of_[index(participants_[i])] = i;
      RankPlan& plan = plans_[i];
      plan.rank = i;
      plan.ranks = ranks;
      plan.elements = elements;
      plan.streams_to.assign(ranks, 0);
      plan.streams_from.assign(ranks, 0);
      set_ranges(plan);
    }
  }

  std::vector<RankPlan> compile() && {
    for (size_t i = 0; i < schedule_.chunk_count(); ++i) add_chunk(i);
    return std::move(plans_);
  }

 private:
  CollectiveKind kind() const { return schedule_.collective().kind(); }

  void set_ranges(RankPlan& plan) const {
    const bool is_root = participants_[plan.rank] == schedule_.collective().root();
    const auto [shard_begin, shard_end] = schedule_.shard_range(plan.rank, elements_);
    plan.input_end = plan.output_end = elements_;
    if (kind() == CollectiveKind::allgather) {
      plan.input_begin = shard_begin;
      plan.input_end = shard_end;
    } else if (kind() == CollectiveKind::reduce_scatter) {
      plan.output_begin = shard_begin;
      plan.output_end = shard_end;
    } else if (kind() == CollectiveKind::broadcast && !is_root) {
      plan.input_end = 0;
    } else if (kind() == CollectiveKind::reduce && !is_root) {
      plan.output_end = 0;
    }
  }

  void add_chunk(size_t i) {
    const Chunk chunk = schedule_.chunk(i);
    const auto [begin, end] = schedule_.element_range(i, elements_);
    const uint32_t root = participant_of_[index(chunk.root)];
    const Collective& collective = schedule_.collective();
    if (collective.is_rooted() && chunk.root != collective.root())
      throw bad(i, "is rooted at another rank than the collective");
    if (begin < end && !is_in_reach_of(plans_[root], begin, end)) throw bad(i, "lies outside the shard of its root");
    const std::vector<Edge> in_edges = edges(i, chunk.in_tree), out_edges = edges(i, chunk.out_tree);
    if (collective.reduces()) expect_in_tree(i, root, in_edges);
    if (collective.spreads()) expect_out_tree(i, root, out_edges);
    if (!collective.reduces() && !in_edges.empty()) throw bad(i, "has an in-tree, but nothing is reduced");
    if (!collective.spreads() && !out_edges.empty()) throw bad(i, "has an out-tree, but nothing is spread");
    if (begin == end) return;

    for (RankPlan& plan : plans_) {
      Role& role = plan.roles.emplace_back();
      role.begin = begin;
      role.end = end;
      role.is_root = plan.rank == root;
    }
    for (const Edge& edge : in_edges) {
      const auto [sender, receiver] = add_stream(edge);
      plans_[edge.from].roles.back().in_parent = sender;
      plans_[edge.to].roles.back().in_children.push_back(receiver);
    }
    for (const Edge& edge : out_edges) {
      const auto [sender, receiver] = add_stream(edge);
      plans_[edge.from].roles.back().out_children.push_back(sender);
      plans_[edge.to].roles.back().out_parent = receiver;
    }
  }

  static bool is_in_reach_of(const RankPlan& root, uint64_t begin, uint64_t end) {
    return root.input_begin <= begin && end <= root.input_end && root.output_begin <= begin && end <= root.output_end;
  }

  std::pair<StreamEnd, StreamEnd> add_stream(const Edge& edge) {
    const uint32_t number = plans_[edge.from].streams_to[edge.to]++;
    ++plans_[edge.to].streams_from[edge.from];
    return {{.peer = edge.to, .number = number}, {.peer = edge.from, .number = number}};
  }

  std::vector<Edge> edges(size_t i, std::span<const RouteId> tree) const {
    std::vector<Edge> edges;
    edges.reserve(tree.size());
    for (const RouteId id : tree) {
      const Route route = schedule_.route(id);
      const Edge edge{participant_of_[index(route.from)], participant_of_[index(route.to)]};
      if (edge.from == kNobody)
        throw bad(i, "uses '" + schedule_.fabric().name(route.from) + "', which does not take part");
      if (edge.to == kNobody)
        throw bad(i, "uses '" + schedule_.fabric().name(route.to) + "', which does not take part");
      if (edge.from == edge.to) throw bad(i, "has an edge from " + name(edge.from) + " to itself");
      edges.push_back(edge);
    }
    return edges;
  }

  void expect_out_tree(size_t i, uint32_t root, const std::vector<Edge>& edges) const {
    std::vector<bool> has_data(participants_.size(), false);
    has_data[root] = true;
    for (const Edge& edge : edges) {
      if (!has_data[edge.from]) throw bad(i, "spreads from " + name(edge.from) + " before it has the data");
      if (has_data[edge.to]) throw bad(i, "spreads to " + name(edge.to) + " twice");
      has_data[edge.to] = true;
    }
    if (edges.size() + 1 != participants_.size()) throw bad(i, "does not spread to every rank");
  }

  void expect_in_tree(size_t i, uint32_t root, const std::vector<Edge>& edges) const {
    std::vector<bool> has_sent(participants_.size(), false);
    has_sent[root] = true;  // the root never sends up
    for (const Edge& edge : edges) {
      if (has_sent[edge.from]) throw bad(i, "reduces from " + name(edge.from) + " twice, or from the root");
      if (edge.to != root && has_sent[edge.to]) throw bad(i, "reduces into " + name(edge.to) + " after it has sent");
      has_sent[edge.from] = true;
    }
    if (edges.size() + 1 != participants_.size()) throw bad(i, "does not reduce from every rank");
  }

  std::string name(uint32_t participant) const {
    return "'" + schedule_.fabric().name(participants_[participant]) + "'";
  }

  static Error bad(size_t i, const std::string& what) {
    return Error(ErrorCode::invalid_input, "chunk " + std::to_string(i) + " " + what);
  }

  const Schedule& schedule_;
  uint64_t elements_;
  std::span<const NodeId> participants_;
  std::vector<uint32_t> participant_of_;  // by node
  std::vector<RankPlan> plans_;
};

}  // namespace

std::vector<uint32_t> peers_of(const RankPlan& plan) {
  std::vector<uint32_t> peers;
  for (uint32_t peer = 0; peer < plan.ranks; ++peer) {
    if (plan.streams_to[peer] + plan.streams_from[peer] > 0) peers.push_back(peer);
  }
  return peers;
}

std::vector<std::vector<uint32_t>> peer_lists(std::span<const RankPlan> plans) {
  std::vector<std::vector<uint32_t>> lists;
  for (const RankPlan& plan : plans) lists.push_back(peers_of(plan));
  return lists;
}

std::vector<RankPlan> make_rank_plans(const Schedule& schedule, uint64_t elements) {
  return Compiler(schedule, elements).compile();
}

}  // namespace banyan
