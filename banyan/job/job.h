// Job: what a distributed program does, as a directed graph: compute, memory, collective, send and receive nodes as
// equals, on streams of ranks. Readers (goal.h, chakra.h, kineto.h) and generators (train/) make one; the job simulator
// runs it on a fabric.
//
// Programs and ranks. Many ranks do the same: all replicas of a pipeline stage. So the graph is kept once per
// *program*, and a rank is a program plus what differs: which group each of the program's group slots means, and which
// rank each of its peer slots means. A trace has a program per rank; a generated job of 16,384 ranks has one per
// pipeline stage, and fits into a cache. Programs that are the same, node by node, are kept once: the ranks of a trace
// often are.
//
//   program 0: node 3 = allreduce of 8 MiB on group slot 0     rank 5 runs program 0, its group slot 0 is group 17
//
// Order. A node starts when all nodes that it needs (`needs`) have ended, all that it follows (`follows`) have started,
// and its stream is free. A stream does one thing at a time: in the order of its nodes (Order::program: CUDA streams),
// or as they become ready, ties to the lower number (Order::ready: the serial CPUs of GOAL, traces without streams).
// Only a stream of Order::free does any number of things at once: messages of GOAL, which wait for their partner in the
// network card and hold no CPU.
//
// Matching. Collectives of a group match by their order on each rank. Messages match as in MPI: a receive of a tag, or
// of kAnyTag, from a peer, or from kAnyPeer, takes of the messages that fit and are not taken yet the one whose send
// started first; of two receives that fit one message, the one that started first takes it. So sends and receives of
// one pair and tag match in order.
//
// Invariants, proved by Job::Builder::build: numbers are in range; a group names each rank once and at least one; a
// rank's slots are all bound, its group slots to groups that it is a member of, its peer slots to other ranks of the
// job; roots are places of their groups; nodes need and follow only nodes of their program, and never wait, directly or
// not, for themselves, where a node of a stream of Order::program waits for the one before it. check.h checks what
// ranks must agree on with one another.
//
// Memory: 56 bytes a node, 8 more in a program where nodes follow others, and 4 a dependency. Immutable value; move it.
// One thread builds, any number reads.
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/collective_kind.h"
#include "banyan/base/units.h"

namespace banyan::job {

enum class NodeKind : uint8_t {
  compute,
  memory,
  collective,
  send,
  receive,
  marker,
  host,  // the device stands still: the host's own work, launches, pauses that a trace does not explain
};

std::string_view to_string(NodeKind kind);

struct Node {
  static constexpr uint32_t kNoTag = 0;
  static constexpr uint32_t kAnyTag = UINT32_MAX;   // of a receive: takes whatever tag
  static constexpr uint32_t kAnyPeer = UINT32_MAX;  // as the slot of a receive: takes from whomever
  static constexpr uint64_t kMaxBytes = uint64_t{1} << 60;
  static constexpr Picoseconds kMaxDuration{int64_t{1} << 60};  // 13 days

  NodeKind kind = NodeKind::compute;
  CollectiveKind collective = CollectiveKind::all_reduce;  // of a collective
  uint16_t stream = 0;                                     // of the program
  uint32_t name = 0;                                       // into Job::names()
  uint32_t slot = 0;                                       // collective: group slot; send, receive: peer slot
  uint32_t tag = 0;    // send, receive; collective: the root's place in its group (broadcast, reduce, gather, scatter)
  uint64_t bytes = 0;  // of a collective its total M (base/collective_kind.h); send, receive; memory: moved
  Picoseconds duration{0};  // compute, memory, host: how long it takes. Others: unused
  // The part of `duration` that a faster device does not shorten: launches by the host, pauses.
  Picoseconds fixed{0};
  double flop = 0;  // compute: for reports only, the duration is what counts

  friend bool operator==(const Node&, const Node&) = default;
};

// A node of the program of a rank.
struct RankNode {
  uint32_t rank = 0, node = 0;
  friend auto operator<=>(const RankNode&, const RankNode&) = default;
};

// A stream; its order says what its nodes wait for besides the nodes that they need.
struct Stream {
  enum class Order : uint8_t { program, ready, free };
  std::string name;  // "compute", "stream 7"
  Order order = Order::program;

  friend bool operator==(const Stream&, const Stream&) = default;
};

struct Program {
  std::vector<Stream> streams;
  std::vector<Node> nodes;  // in program order
  uint32_t group_slots = 0, peer_slots = 0;

  std::span<const uint32_t> needs(uint32_t node) const { return list(needs_start_, needs_, node); }
  std::span<const uint32_t> follows(uint32_t node) const { return list(follows_start_, follows_, node); }

  friend bool operator==(const Program&, const Program&) = default;

 private:
  friend class Job;
  static std::span<const uint32_t> list(const std::vector<uint64_t>& start, const std::vector<uint32_t>& all,
                                        uint32_t node) {
    if (start.empty()) return {};
    return std::span(all).subspan(start[node], start[node + 1] - start[node]);
  }
  std::vector<uint64_t> needs_start_, follows_start_;  // one longer than nodes; empty where there are none
  std::vector<uint32_t> needs_, follows_;
};

struct Group {
  std::string name;             // as errors call it: "tp 3", "pg 12"
  std::vector<uint32_t> ranks;  // in the order of the group; shards lie in this order
};

class Job {
 public:
  class Builder;
  static constexpr size_t kMaxNodes = 100'000'000;  // of all programs
  static constexpr uint32_t kMaxRanks = 1'000'000;

  const std::string& name() const { return name_; }
  uint32_t rank_count() const { return static_cast<uint32_t>(ranks_.size()); }
  std::span<const Program> programs() const { return programs_; }
  std::span<const Group> groups() const { return groups_; }
  std::span<const std::string> names() const { return names_; }
  const std::string& name_of(const Node& node) const { return names_[node.name]; }

  uint32_t program_number(uint32_t rank) const { return ranks_[rank].program; }
  const Program& program(uint32_t rank) const { return programs_[ranks_[rank].program]; }
  uint32_t group(uint32_t rank, uint32_t slot) const { return slots_[ranks_[rank].slots + slot]; }
  uint32_t peer(uint32_t rank, uint32_t slot) const {
    return slots_[ranks_[rank].slots + program(rank).group_slots + slot];
  }

  // All nodes that ranks carry out, those of a program once per rank.
  uint64_t node_count() const;

 private:
  struct RankRow {
    uint32_t program = 0;
    uint64_t slots = 0;  // into slots_: its groups, then its peers
  };

  std::string name_;
  std::vector<Program> programs_;
  std::vector<Group> groups_;
  std::vector<std::string> names_;
  std::vector<RankRow> ranks_;
  std::vector<uint32_t> slots_;
};

// Single use, one thread. Programs are written one after the other: begin_program, its streams and nodes, then the
// next.
class Job::Builder {
 public:
  explicit Builder(std::string name);
  ~Builder();

  uint32_t add_name(std::string_view text);      // the same text gives the same number
  std::string_view name(uint32_t number) const;  // good until the next add_name
  uint32_t add_group(std::string name, std::vector<uint32_t> ranks);

  // `called` is how errors call it: "rank 3". Empty: "program 0" by its number.
  uint32_t begin_program(std::string called = "");
  uint16_t add_stream(Stream stream);
  // Slots are made by being used in a node. Returns the node's number in the program, from 0.
  // Throws Error{unsupported} beyond kMaxNodes.
  uint32_t add_node(const Node& node);
  // Dependencies of the program that was begun last, in any order, before or after the nodes are added (readers meet
  // references before what they refer to); repeated pairs count once.
  // The built job has them in ascending order within a node.
  void add_need(uint32_t node, uint32_t needed);
  void add_follow(uint32_t node, uint32_t followed);
  // Proves what can be proved of the program alone, as build() does, for readers that know in which line they are now.
  // Nothing may be added to the program any more. Optional.
  void finish_program();

  // Ranks in ascending order: the first call is rank 0. `groups` and `peers` by slot.
  void add_rank(uint32_t program, std::span<const uint32_t> groups, std::span<const uint32_t> peers);

  // Throws Error{invalid_input} that names program, rank, node or group for whatever breaks an invariant; a cycle is
  // shown as the names of (some of) its nodes. Complexity O(nodes + dependencies).
  Job build() &&;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace banyan::job

namespace banyan {
using job::Job;
}  // namespace banyan
