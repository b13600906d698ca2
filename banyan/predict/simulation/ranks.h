// JobRanks: how far the ranks of jobs have come in their programs.
//
// It knows what may start when something else has started or ended, on streams that do one thing at a time (job.h has
// the rules), and nothing of time or links. One of the ranks that are alike (kinds.h) is carried out; `rank` is its
// number among those carried out: its kind. Deterministic: nodes start in the order in which they became able to. One
// thread.
// O(log n) a node; 8 bytes for each. Private to job_simulation.cc and its parts.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <queue>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/predict/simulation/job_simulation.h"
#include "banyan/predict/simulation/kinds.h"
#include "banyan/predict/simulation/program_plan.h"

namespace banyan::predict {

using job::RankNode;  // of the ranks that are carried out
// A node that has started and needs other ranks to go on.
struct JobArrival {
  RankNode place;
  Picoseconds at{0};
};

class JobRanks {
 public:
  struct Rank {
    uint32_t number = 0;  // among all ranks of all jobs
    uint32_t job = 0, in_job = 0;
    const job::Program* program = nullptr;
  };

  // Both outlive it.
  JobRanks(const std::vector<PlacedJob>& jobs, const JobKinds& kinds);

  uint32_t count() const { return static_cast<uint32_t>(ranks_.size()); }
  const Rank& operator[](uint32_t rank) const { return ranks_[rank]; }
  const Job& job_of(uint32_t rank) const { return *jobs_[ranks_[rank].job].job; }
  // The fabric's rank on which a rank of the same job runs.
  NodeId site(uint32_t rank, uint32_t in_job) const { return jobs_[ranks_[rank].job].nodes[in_job]; }
  const job::Node& node(RankNode place) const { return ranks_[place.rank].program->nodes[place.node]; }
  const std::string& name(RankNode place) const { return job_of(place.rank).name_of(node(place)); }
  const job::Group& group(RankNode place) const;  // of a collective

  void begin(uint32_t rank);
  // The next node to start, which has then started; nothing while all wait for something to end.
  std::optional<RankNode> start_next();
  void end(RankNode place);
  // Leaves out what the job has still to do.
  void give_up(uint32_t job);
  bool is_job_given_up(uint32_t job) const { return is_given_up_[job]; }
  bool is_given_up(uint32_t rank) const { return is_given_up_[ranks_[rank].job]; }

  uint64_t nodes() const { return nodes_; }
  uint64_t nodes_left() const { return nodes_left_; }
  uint64_t nodes_given_up() const { return nodes_given_up_; }

 private:
  struct Stream {
    uint32_t next = 0;  // Order::program: the place in the plan's list
    bool is_busy = false;
    bool is_queued = false;
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready = {};  // Order::ready
  };
  struct Progress {
    const ProgramPlan* plan = nullptr;
    std::vector<uint32_t> missing;  // by node: what it waits for
    std::vector<Stream> streams;
  };

  void add(uint32_t number, const JobKinds& kinds);
  void became_ready(RankNode place);
  void queue_stream(uint32_t rank, uint16_t number);
  void release(uint32_t rank, std::span<const uint32_t> nodes);
  // Nothing when the stream cannot go on.
  std::optional<uint32_t> take_from(uint32_t rank, uint16_t number);

  const std::vector<PlacedJob>& jobs_;
  std::deque<std::vector<ProgramPlan>> plans_;  // by job, program
  std::vector<Rank> ranks_;
  std::vector<Progress> progress_;                       // by rank
  std::deque<RankNode> starting_;                        // of streams without an order
  std::deque<std::pair<uint32_t, uint16_t>> may_go_on_;  // streams
  std::vector<uint64_t> nodes_left_of_;                  // by job
  std::vector<bool> is_given_up_;                        // by job
  uint64_t nodes_ = 0, nodes_left_ = 0, nodes_given_up_ = 0;
};

}  // namespace banyan::predict
