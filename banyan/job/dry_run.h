// DryRun: carries a job out in order with everything taking no time, until nothing can go on. check.h is built on it.
//
// A rank starts what it can, the lowest number first, until all that it could start is done or waits for others; then
// the next rank does. If an order depends on time (receives from anybody, streams of Order::ready), this is one of
// several that may come about.
//
// Time O(nodes of all ranks + dependencies), and O(log n) for nodes that become ready out of order. Memory: 5 bytes a
// node of a rank, 8 a node of a program and 4 to 8 a dependency of a program.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <vector>

#include "banyan/job/job.h"
#include "banyan/job/message_match.h"

namespace banyan::job {

class DryRun {
 public:
  enum class Phase : uint8_t { waiting, under_way, ended };

  // The i-th collective of a group, from 0, and who called it.
  struct Call {
    uint32_t group = 0;
    uint64_t number = 0;
    std::vector<RankNode> members = {};  // who called it, in the order of their calls
    bool differs = false;                // not all of them called the same
  };

  struct Observer {
    std::function<void(const Call&)> on_differing_call;  // complete, but called differently
    std::function<void(RankNode send, RankNode receive)> on_match;
  };

  // Sends up to `eager` end at once; larger ones wait for their receive.
  DryRun(const Job& job, Bytes eager, Observer observer);
  void run();

  // A number for each node of each rank, below place_count().
  uint64_t index(RankNode place) const { return base_[place.rank] + place.node; }
  uint64_t place_count() const { return base_.back(); }
  Phase phase(RankNode place) const { return phase_[index(place)]; }
  // The node of the same rank that a waiting node waits for: one that has not ended (needed, before it on its stream,
  // or holding its stream) or has not started (followed). If there are several, the first.
  uint32_t blocker(RankNode place) const;

  // True if two nodes call the same collective: kind, bytes, root.
  static bool is_same_call(const Node& a, const Node& b);

  // Calls and messages that are left over.
  std::vector<const Call*> open_calls() const;  // by group, then number
  const MessageMatch& messages() const { return messages_; }

 private:
  struct Lists {
    std::vector<uint64_t> start;
    std::vector<uint32_t> all;
    std::span<const uint32_t> of(uint32_t node) const {
      return std::span(all).subspan(start[node], start[node + 1] - start[node]);
    }
  };
  struct ProgramRow {
    std::vector<uint32_t> previous;  // by node: the one before it on a stream of Order::program
    Lists ended, started;            // by node: those that wait for its end, its start
  };
  using Heap = std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>>;
  struct StreamRow {  // of Order::ready
    bool is_held = false;
    uint32_t holder = 0;
    Heap ready;
  };
  struct Rank {
    uint32_t cursor = 0;  // nodes that wait for nothing are taken from here on
    Heap ready;           // others that became ready
    bool is_queued = false;
    std::vector<StreamRow> streams;
    std::vector<uint32_t> first_slot;  // by group slot: the first that means the same group
    std::vector<uint64_t> calls;       // by group slot, counted at the first that means the same group
  };
  struct GroupRow {
    uint64_t first_open = 0;
    std::deque<Call> open;
  };

  static constexpr uint32_t kNone = UINT32_MAX;

  void find_first_slots();
  static ProgramRow successors_of(const Program& program);
  uint32_t unmet(uint32_t rank, uint32_t node) const;
  void run_rank(uint32_t rank);
  std::optional<uint32_t> take_ready(uint32_t rank);
  void begin(RankNode place);
  void start(RankNode place);
  void end(RankNode place);
  void release(uint32_t rank, std::span<const uint32_t> nodes);
  void start_collective(RankNode place);
  void start_message(RankNode place);
  const Node& node(RankNode place) const { return job_.program(place.rank).nodes[place.node]; }

  const Job& job_;
  const Bytes eager_;
  Observer observer_;
  std::vector<ProgramRow> programs_;
  std::vector<Rank> ranks_;
  std::vector<GroupRow> groups_;
  std::vector<uint64_t> base_;  // by rank, into the next two
  std::vector<Phase> phase_;
  std::vector<uint32_t> unmet_;
  std::deque<uint32_t> queue_;  // ranks that may go on
  MessageMatch messages_;
};

}  // namespace banyan::job
