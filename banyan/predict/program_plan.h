// Parts of the simulation of jobs that know nothing of flows: what a program's nodes wait for, and where the time of a
// rank goes. Private to job_simulation.cc.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "banyan/predict/job/job.h"
#include "banyan/predict/prediction.h"

namespace banyan {

// What of a program does not depend on the rank that carries it out.
struct ProgramPlan {
  struct Lists {
    std::vector<uint64_t> start;
    std::vector<uint32_t> all;
    std::span<const uint32_t> of(uint32_t node) const {
      if (start.empty()) return {};
      return std::span(all).subspan(start[node], start[node + 1] - start[node]);
    }
  };
  Lists ended, started;                          // by node: who needs it, who follows it
  std::vector<uint32_t> waits_for;               // by node: how many it needs and follows
  std::vector<std::vector<uint32_t>> of_stream;  // by stream of Order::program: its nodes

  explicit ProgramPlan(const JobProgram& program) : waits_for(program.nodes.size()), of_stream(program.streams.size()) {
    const auto turn_round = [&](Lists& lists, auto list_of) {
      std::vector<uint64_t> start(program.nodes.size() + 1, 0);
      for (uint32_t node = 0; node < program.nodes.size(); ++node) {
        for (const uint32_t other : list_of(node)) ++start[other + 1];
        waits_for[node] += static_cast<uint32_t>(list_of(node).size());
      }
      for (size_t i = 1; i < start.size(); ++i) start[i] += start[i - 1];
      if (start.back() == 0) return;
      lists.all.resize(start.back());
      std::vector<uint64_t> at(start.begin(), start.end() - 1);
      for (uint32_t node = 0; node < program.nodes.size(); ++node) {
        for (const uint32_t other : list_of(node)) lists.all[at[other]++] = node;
      }
      lists.start = std::move(start);
    };
    turn_round(ended, [&](uint32_t node) { return program.needs(node); });
    turn_round(started, [&](uint32_t node) { return program.follows(node); });
    for (uint32_t node = 0; node < program.nodes.size(); ++node) {
      const uint16_t stream = program.nodes[node].stream;
      if (program.streams[stream].order == JobStream::Order::program) of_stream[stream].push_back(node);
    }
  }
};

// Where the time of a rank goes, as counts of what is under way.
class Account {
 public:
  enum Of { computing, moving, waiting };

  void change(Of of, int by, Picoseconds now) {
    book(now);
    counts_[of] += by;
  }
  // Nothing is under way from now on.
  void abandon(Picoseconds now) {
    book(now);
    for (int& count : counts_) count = 0;
  }
  void finish(PredictedRank& rank, Picoseconds now) {
    book(now);
    rank.compute = sums_[computing];
    rank.exposed = sums_[moving];
    rank.waiting = sums_[waiting];
    rank.bubble = idle_;
  }

 private:
  void book(Picoseconds now) {
    const Picoseconds passed = now - std::exchange(last_, now);
    for (const Of of : {computing, moving, waiting}) {
      if (counts_[of] == 0) continue;
      sums_[of] += passed;
      return;
    }
    idle_ += passed;
  }

  int counts_[3] = {0, 0, 0};
  Picoseconds sums_[3] = {}, idle_{0}, last_{0};
};

}  // namespace banyan
