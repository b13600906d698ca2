// ProgramPlan: what the nodes of a program wait for, turned round, so that a node that ends finds whom it lets start.
// The same for every rank that carries the program out. O(nodes + dependencies) to make. Private to ranks.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/job/job.h"

namespace banyan::predict {

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

  explicit ProgramPlan(const job::Program& program);
};

}  // namespace banyan::predict
