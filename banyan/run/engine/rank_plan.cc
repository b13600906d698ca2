#include "banyan/run/engine/rank_plan.h"

#include <algorithm>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/engine/route_lanes.h"

namespace banyan::run {
namespace {

constexpr uint32_t kNobody = UINT32_MAX;

struct Edge {
  uint32_t from = 0, to = 0;  // participants
  RouteId route{};
};

// How many elements a buffer has that holds these blocks.
uint64_t extent(std::span<const Block> blocks) {
  uint64_t end = 0;
  for (const Block& block : blocks) end = std::max(end, block.count == 0 ? 0 : block.at + block.count);
  return end;
}

// Where the elements of a chunk stand in the buffers of each rank.
class Layout {
 public:
  Layout() = default;
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;
  virtual ~Layout() = default;

  virtual uint64_t length(size_t chunk) const = 0;
  virtual std::optional<uint64_t> input_at(size_t chunk, uint32_t rank) const = 0;
  virtual std::optional<uint64_t> output_at(size_t chunk, uint32_t rank) const = 0;
  virtual uint64_t input_elements(uint32_t rank) const = 0;
  virtual uint64_t output_elements(uint32_t rank) const = 0;
};

// Shards as the schedule weighs them, of one buffer.
class WholeBuffer : public Layout {
 public:
  WholeBuffer(const Schedule& schedule, uint64_t elements) : schedule_(schedule), elements_(elements) {
    const auto ranks = static_cast<uint32_t>(schedule.collective().participants().size());
    for (uint32_t rank = 0; rank < ranks; ++rank) parts_.push_back(buffer_parts(schedule, rank, elements));
  }

  uint64_t length(size_t chunk) const override {
    const auto [begin, end] = schedule_.element_range(chunk, elements_);
    return end - begin;
  }
  std::optional<uint64_t> input_at(size_t chunk, uint32_t rank) const override {
    return place(chunk, parts_[rank].input_begin, parts_[rank].input_end);
  }
  std::optional<uint64_t> output_at(size_t chunk, uint32_t rank) const override {
    return place(chunk, parts_[rank].output_begin, parts_[rank].output_end);
  }
  uint64_t input_elements(uint32_t rank) const override { return parts_[rank].input_end - parts_[rank].input_begin; }
  uint64_t output_elements(uint32_t rank) const override { return parts_[rank].output_end - parts_[rank].output_begin; }

 private:
  std::optional<uint64_t> place(size_t chunk, uint64_t part_begin, uint64_t part_end) const {
    const auto [begin, end] = schedule_.element_range(chunk, elements_);
    // A chunk has a place here only as a whole.
    if (begin == end || begin < part_begin || end > part_end) return std::nullopt;
    return begin - part_begin;
  }

  const Schedule& schedule_;
  const uint64_t elements_;
  std::vector<BufferParts> parts_;
};

// Shards of any size, for one participant.
class Blocks : public Layout {
 public:
  Blocks(const Schedule& schedule, std::span<const Block> blocks) : blocks_(blocks.begin(), blocks.end()) {
    const Collective& collective = schedule.collective();
    if (collective.kind() != CollectiveKind::all_gather && collective.kind() != CollectiveKind::reduce_scatter) {
      throw Error(ErrorCode::invalid_input, "a schedule for " + std::string(to_string(collective.kind())) +
                                                " has no shards; give one for allgather or reduce-scatter");
    }
    is_gathered_ = collective.kind() == CollectiveKind::all_gather;
    const std::span<const NodeId> participants = collective.participants();
    CHECK_EQ(blocks.size(), participants.size());
    // Trees of one root follow each other in its block, each with its part of the root's units.
    std::vector<uint64_t> units_of(participants.size());
    for (size_t i = 0; i < schedule.chunk_count(); ++i) {
      const Chunk chunk = schedule.chunk(i);
      const auto owner =
          static_cast<uint32_t>(std::find(participants.begin(), participants.end(), chunk.root) - participants.begin());
      shares_.push_back({.owner = owner, .begin = units_of[owner], .end = units_of[owner] + chunk.units});
      units_of[owner] += chunk.units;
    }
    for (uint32_t rank = 0; rank < blocks.size(); ++rank) {
      if (blocks[rank].count == 0 || units_of[rank] > 0) continue;
      throw Error(ErrorCode::invalid_input, "'" + schedule.fabric().name(participants[rank]) + "' has a block of " +
                                                std::to_string(blocks[rank].count) +
                                                " elements, but the schedule has no tree for it");
    }
    // Blocks that are the schedule's own shards are cut as these are. Others are cut in proportion.
    if (cut_as_a_whole(schedule)) return;
    for (Share& share : shares_) {
      // The end of one tree is rounded as the beginning of the next, so no element is left out or comes twice.
      share.begin = scaled(share.begin, share.owner, units_of);
      share.end = scaled(share.end, share.owner, units_of);
    }
  }

  uint64_t length(size_t chunk) const override { return shares_[chunk].end - shares_[chunk].begin; }
  std::optional<uint64_t> input_at(size_t chunk, uint32_t rank) const override {
    return is_gathered_ ? in_own_block(chunk, rank) : in_all_blocks(chunk);
  }
  std::optional<uint64_t> output_at(size_t chunk, uint32_t rank) const override {
    return is_gathered_ ? in_all_blocks(chunk) : in_own_block(chunk, rank);
  }
  uint64_t input_elements(uint32_t rank) const override { return is_gathered_ ? blocks_[rank].count : extent(blocks_); }
  uint64_t output_elements(uint32_t rank) const override {
    return is_gathered_ ? extent(blocks_) : blocks_[rank].count;
  }

 private:
  struct Share {
    uint32_t owner = 0;
    uint64_t begin = 0, end = 0;  // of the block
  };

  // Where every block is as large as the schedule's shard of a whole buffer, each tree carries what it carries of that,
  // to the last element. False where they are not.
  bool cut_as_a_whole(const Schedule& schedule) {
    uint64_t total = 0;
    for (const Block& block : blocks_) total += block.count;
    std::vector<uint64_t> shard_begins;
    for (uint32_t rank = 0; rank < blocks_.size(); ++rank) {
      const auto [begin, end] = schedule.shard_range(rank, total);
      if (end - begin != blocks_[rank].count) return false;
      shard_begins.push_back(begin);
    }
    for (size_t i = 0; i < shares_.size(); ++i) {
      Share& share = shares_[i];
      const auto [begin, end] = schedule.element_range(i, total);
      const uint64_t shard_begin = shard_begins[share.owner], shard_end = shard_begin + blocks_[share.owner].count;
      if (begin < shard_begin || end > shard_end) {
        throw Error(ErrorCode::invalid_input, "chunk " + std::to_string(i) + " lies outside the shard of its root");
      }
      share.begin = begin - shard_begin;
      share.end = end - shard_begin;
    }
    return true;
  }
  uint64_t scaled(uint64_t units, uint32_t owner, std::span<const uint64_t> units_of) const {
    return static_cast<uint64_t>(static_cast<unsigned __int128>(units) * blocks_[owner].count / units_of[owner]);
  }
  std::optional<uint64_t> in_own_block(size_t chunk, uint32_t rank) const {
    if (shares_[chunk].owner != rank) return std::nullopt;
    return shares_[chunk].begin;
  }
  uint64_t in_all_blocks(size_t chunk) const { return blocks_[shares_[chunk].owner].at + shares_[chunk].begin; }

  std::vector<Block> blocks_;
  std::vector<Share> shares_;  // by chunk
  bool is_gathered_ = true;
};

// What every pair of ranks has for each other, for one participant.
class Pairs : public Layout {
 public:
  Pairs(const Schedule& schedule, const PairBlocks& blocks, uint32_t own) : blocks_(blocks), own_(own) {
    const Collective& collective = schedule.collective();
    if (!collective.is_personal()) {
      throw Error(ErrorCode::invalid_input, "a schedule for " + std::string(to_string(collective.kind())) +
                                                " has no blocks for pairs of ranks; give one for all-to-all");
    }
    const std::span<const NodeId> participants = collective.participants();
    CHECK(blocks.send.size() == participants.size() && blocks.receive.size() == participants.size());
    std::vector<uint32_t> participant_of(schedule.fabric().nodes().size(), kNobody);
    for (uint32_t i = 0; i < participants.size(); ++i) participant_of[index(participants[i])] = i;
    std::vector<bool> is_sent(participants.size(), false), is_received(participants.size(), false);
    for (size_t i = 0; i < schedule.chunk_count(); ++i) {
      const uint32_t from = participant_of[index(schedule.chunk(i).root)],
                     to = participant_of[index(schedule.target(i))];
      // A chunk carries a part of what its pair has.
      const auto [begin, end] = schedule.block_range(i, blocks.elements(from, to));
      parts_.push_back({.from = from, .to = to, .begin = begin, .end = end});
      if (from == own) is_sent[to] = true;
      if (to == own) is_received[from] = true;
    }
    for (uint32_t peer = 0; peer < participants.size(); ++peer) {
      if (peer == own) continue;
      if ((blocks.send[peer].count == 0 || is_sent[peer]) && (blocks.receive[peer].count == 0 || is_received[peer]))
        continue;
      throw Error(ErrorCode::invalid_input,
                  "'" + schedule.fabric().name(participants[own]) + "' and '" +
                      schedule.fabric().name(participants[peer]) +
                      "' have elements for each other, but the schedule has no path for them");
    }
  }

  uint64_t length(size_t chunk) const override { return parts_[chunk].end - parts_[chunk].begin; }
  std::optional<uint64_t> input_at(size_t chunk, uint32_t rank) const override {
    const Part& part = parts_[chunk];
    if (part.from != rank) return std::nullopt;
    return rank == own_ ? blocks_.send[part.to].at + part.begin : 0;  // where it stands at others is theirs to know
  }
  std::optional<uint64_t> output_at(size_t chunk, uint32_t rank) const override {
    const Part& part = parts_[chunk];
    if (part.to != rank) return std::nullopt;
    return rank == own_ ? blocks_.receive[part.from].at + part.begin : 0;
  }
  uint64_t input_elements(uint32_t) const override { return extent(blocks_.send); }
  uint64_t output_elements(uint32_t) const override { return extent(blocks_.receive); }

 private:
  struct Part {
    uint32_t from = 0, to = 0;
    uint64_t begin = 0, end = 0;  // of the block
  };

  const PairBlocks& blocks_;
  const uint32_t own_;
  std::vector<Part> parts_;  // by chunk
};

class Compiler {
 public:
  // The plan of one participant only, or of all.
  Compiler(const Schedule& schedule, const Layout& layout, std::optional<uint32_t> wanted)
      : schedule_(schedule),
        layout_(layout),
        participants_(schedule.collective().participants()),
        participant_of_(schedule.fabric().nodes().size(), kNobody),
        plan_of_(participants_.size(), nullptr),
        lanes_(schedule) {
    const auto ranks = static_cast<uint32_t>(participants_.size());
    // Only the plans that are wanted are made, but all chunks count for the numbers of streams and lanes.
    plans_.resize(wanted ? 1 : ranks);
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      participant_of_[index(participants_[rank])] = rank;
      if (wanted && rank != *wanted) continue;
      RankPlan& plan = plans_[wanted ? 0 : rank];
      plan_of_[rank] = &plan;
      plan.rank = rank;
      plan.ranks = ranks;
      plan.input_elements = layout.input_elements(rank);
      plan.output_elements = layout.output_elements(rank);
      plan.streams_to.assign(ranks, 0);
      plan.streams_from.assign(ranks, 0);
    }
  }

  std::vector<RankPlan> compile() && {
    for (size_t i = 0; i < schedule_.chunk_count(); ++i) add_chunk(i);
    // All routes have been numbered by now.
    for (RankPlan& plan : plans_) plan.lanes = lanes_.of(participants_, plan.rank);
    return std::move(plans_);
  }

 private:
  void add_chunk(size_t i) {
    const Chunk chunk = schedule_.chunk(i);
    const uint64_t length = layout_.length(i);
    const uint32_t root = participant_of_[index(chunk.root)];
    const Collective& collective = schedule_.collective();
    // 1. The chunk must be what the engine can follow.
    if (collective.is_rooted() && chunk.root != collective.root())
      throw bad(i, "is rooted at another rank than the collective");
    const bool is_personal = collective.is_personal();
    if (length > 0 && !is_personal && !(layout_.input_at(i, root) && layout_.output_at(i, root)))
      throw bad(i, "lies outside the shard of its root");
    const std::vector<Edge> in_edges = edges(i, chunk.in_tree), out_edges = edges(i, chunk.out_tree);
    if (collective.reduces()) expect_in_tree(i, root, in_edges);
    if (collective.spreads()) expect_out_tree(i, root, out_edges);
    if (!collective.reduces() && !in_edges.empty()) throw bad(i, "has an in-tree, but nothing is reduced");
    if (!collective.spreads() && !out_edges.empty()) throw bad(i, "has an out-tree, but nothing is spread");
    // Chunks without elements count here, so that the numbers of lanes do not depend on the number of elements.
    for (const Edge& edge : in_edges) lanes_.lane(edge.route);
    for (const Edge& edge : out_edges) lanes_.lane(edge.route);
    // 2. Roles. Without elements there is nothing to do; in an all-to-all only ranks on the path have one.
    if (length == 0) return;

    for (RankPlan& plan : plans_) {
      const auto touches = [&](const Edge& edge) { return edge.from == plan.rank || edge.to == plan.rank; };
      if (is_personal && std::none_of(out_edges.begin(), out_edges.end(), touches)) continue;
      Role& role = plan.roles.emplace_back();
      role.length = length;
      role.input_at = layout_.input_at(i, plan.rank);
      role.output_at = layout_.output_at(i, plan.rank);
    }
    // 3. Streams, in-tree before out-tree: both ends number those of a pair in this order.
    for (const Edge& edge : in_edges) add_in_edge(edge);
    for (const Edge& edge : out_edges) add_out_edge(i, edge);
  }

  void add_in_edge(const Edge& edge) {
    const uint32_t lane = lanes_.lane(edge.route);
    if (RankPlan* const child = plan_of_[edge.from]) {
      // Both ends add streams in this order, so they give each the same number. All of an in-tree are windowed.
      StreamEnd& end = child->roles.back().in_parent.emplace(child->add_stream_to(edge.to, lane));
      end.is_windowed = true;
    }
    if (RankPlan* const parent = plan_of_[edge.to]) {
      parent->roles.back().in_children.push_back(parent->add_stream_from(edge.from, lane));
      parent->roles.back().in_children.back().is_windowed = true;
    }
  }

  void add_out_edge(size_t i, const Edge& edge) {
    const uint32_t lane = lanes_.lane(edge.route);
    // A receiver without an output must keep what it gets until it is sent on, so it keeps few slices and gives credit.
    const bool is_windowed = !layout_.output_at(i, edge.to);
    if (RankPlan* const parent = plan_of_[edge.from]) {
      parent->roles.back().out_children.push_back(parent->add_stream_to(edge.to, lane));
      parent->roles.back().out_children.back().is_windowed = is_windowed;
    }
    if (RankPlan* const child = plan_of_[edge.to]) {
      StreamEnd& end = child->roles.back().out_parent.emplace(child->add_stream_from(edge.from, lane));
      end.is_windowed = is_windowed;
    }
  }

  std::vector<Edge> edges(size_t i, std::span<const RouteId> tree) const {
    std::vector<Edge> edges;
    edges.reserve(tree.size());
    for (const RouteId id : tree) {
      const Route route = schedule_.route(id);
      // Both ends must take part, and be two.
      const Edge edge{participant_of_[index(route.from)], participant_of_[index(route.to)], id};
      for (const NodeId end : {route.from, route.to}) {
        if (participant_of_[index(end)] == kNobody) throw stranger(i, end);
      }
      if (edge.from == edge.to) throw bad(i, "has an edge from " + name(edge.from) + " to itself");
      edges.push_back(edge);
    }
    return edges;
  }

  void expect_out_tree(size_t i, uint32_t root, const std::vector<Edge>& edges) const {
    std::vector<bool> has_data(participants_.size(), false);
    has_data[root] = true;
    for (const Edge& edge : edges) {
      // Edges come parents before children: nobody spreads what it does not have yet.
      if (!has_data[edge.from]) throw bad(i, "spreads from " + name(edge.from) + " before it has the data");
      if (has_data[edge.to]) throw bad(i, "spreads to " + name(edge.to) + " twice");
      has_data[edge.to] = true;
    }
    // A chunk of an all-to-all is a path: each edge begins where the last one ended.
    if (schedule_.collective().is_personal()) {
      for (size_t e = 1; e < edges.size(); ++e) {
        if (edges[e].from != edges[e - 1].to)
          throw bad(i, "branches at " + name(edges[e].from) + " though it is for one");
      }
    } else if (edges.size() + 1 != participants_.size()) {
      throw bad(i, "does not spread to every rank");
    }
  }

  void expect_in_tree(size_t i, uint32_t root, const std::vector<Edge>& edges) const {
    std::vector<bool> has_sent(participants_.size(), false);
    has_sent[root] = true;  // the root never sends up
    for (const Edge& edge : edges) {
      // Edges come children before parents: nobody sends before all that it reduces has come.
      if (has_sent[edge.from]) throw bad(i, "reduces from " + name(edge.from) + " twice, or from the root");
      if (edge.to != root && has_sent[edge.to]) throw bad(i, "reduces into " + name(edge.to) + " after it has sent");
      has_sent[edge.from] = true;
    }
    if (edges.size() + 1 != participants_.size()) throw bad(i, "does not reduce from every rank");
  }

  std::string name(uint32_t participant) const {
    return "'" + schedule_.fabric().name(participants_[participant]) + "'";
  }

  // Of a node that is no participant.
  Error stranger(size_t i, NodeId node) const {
    const std::string named = "'" + schedule_.fabric().name(node) + "'";
    if (schedule_.fabric().is_rank(node)) return bad(i, "uses " + named + ", which does not take part");
    return Error(ErrorCode::unsupported,
                 "chunk " + std::to_string(i) + " branches at switch " + named +
                     ", and hosts run plans that branch at ranks alone; plan for the fabric with '--in-network " +
                     schedule_.fabric().name(node) + "=none'");
  }

  static Error bad(size_t i, const std::string& what) {
    return Error(ErrorCode::invalid_input, "chunk " + std::to_string(i) + " " + what);
  }

  const Schedule& schedule_;
  const Layout& layout_;
  std::span<const NodeId> participants_;
  std::vector<uint32_t> participant_of_;  // by node
  std::vector<RankPlan> plans_;
  std::vector<RankPlan*> plan_of_;  // by participant; null of those nobody wants
  RouteLanes lanes_;
};

}  // namespace

StreamEnd RankPlan::add_stream_to(uint32_t peer, uint32_t lane) {
  return {.peer = peer, .lane = lane, .number = streams_to[peer]++};
}

StreamEnd RankPlan::add_stream_from(uint32_t peer, uint32_t lane) {
  return {.peer = peer, .lane = lane, .number = streams_from[peer]++};
}

uint64_t elements_sent(const RankPlan& plan) {
  uint64_t elements = 0;
  for (const Role& role : plan.roles) {
    elements += role.length * (role.out_children.size() + (role.in_parent ? 1 : 0));
  }
  return elements;
}

BufferParts buffer_parts(const Schedule& schedule, uint32_t participant, uint64_t elements) {
  const Collective& collective = schedule.collective();
  const bool is_root = collective.participants()[participant] == collective.root();
  const auto [shard_begin, shard_end] = schedule.shard_range(participant, elements);
  BufferParts parts{.input_end = elements, .output_end = elements};
  // The whole buffer, but for shards where the kind has them, and for ranks to which it gives nothing.
  if (collective.kind() == CollectiveKind::all_gather) {
    parts.input_begin = shard_begin;
    parts.input_end = shard_end;
  } else if (collective.kind() == CollectiveKind::reduce_scatter) {
    parts.output_begin = shard_begin;
    parts.output_end = shard_end;
  } else if (collective.kind() == CollectiveKind::broadcast && !is_root) {
    parts.input_end = 0;
  } else if (collective.kind() == CollectiveKind::reduce && !is_root) {
    parts.output_end = 0;
  }
  return parts;
}

std::vector<RankPlan> make_rank_plans(const Schedule& schedule, uint64_t elements) {
  // In an all-to-all places differ from rank to rank, so each plan is made by itself.
  if (schedule.collective().is_personal()) {
    std::vector<RankPlan> plans;
    for (uint32_t rank = 0; rank < schedule.collective().participants().size(); ++rank)
      plans.push_back(make_rank_plan(schedule, elements, rank));
    return plans;
  }
  return Compiler(schedule, WholeBuffer(schedule, elements), std::nullopt).compile();
}

RankPlan make_rank_plan(const Schedule& schedule, uint64_t elements, uint32_t participant) {
  if (schedule.collective().is_personal())
    return make_pair_plan(schedule, even_pairs(schedule.collective(), elements, participant), participant);
  return std::move(Compiler(schedule, WholeBuffer(schedule, elements), participant).compile().front());
}

RankPlan make_block_plan(const Schedule& schedule, std::span<const Block> blocks, uint32_t participant) {
  return std::move(Compiler(schedule, Blocks(schedule, blocks), participant).compile().front());
}

PairBlocks even_pairs(const Collective& collective, uint64_t elements, uint32_t participant) {
  PairBlocks blocks{.elements = [&collective, elements](uint32_t from, uint32_t to) {
    return collective.block_elements(from, to, elements);
  }};
  uint64_t send_at = 0, receive_at = 0;
  for (uint32_t peer = 0; peer < collective.participants().size(); ++peer) {
    const uint64_t sent = blocks.elements(participant, peer), received = blocks.elements(peer, participant);
    blocks.send.push_back({.at = std::exchange(send_at, send_at + sent), .count = sent});
    blocks.receive.push_back({.at = std::exchange(receive_at, receive_at + received), .count = received});
  }
  return blocks;
}

RankPlan make_pair_plan(const Schedule& schedule, const PairBlocks& blocks, uint32_t participant) {
  RankPlan plan = std::move(Compiler(schedule, Pairs(schedule, blocks, participant), participant).compile().front());
  plan.shuffles = true;
  // The schedule has no path from a rank to itself: its own block is a copy.
  const Block &own_sent = blocks.send[participant], &own_received = blocks.receive[participant];
  if (own_sent.count > 0)
    plan.roles.push_back({.length = own_sent.count, .input_at = own_sent.at, .output_at = own_received.at});
  return plan;
}

}  // namespace banyan::run
