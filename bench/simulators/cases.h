// What simulators are timed on: flows in phases on a fabric, a phase when the one before it has ended.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/predict/fluid/fluid_network.h"

namespace banyan::bench {

struct CaseFlow {
  uint32_t from = 0, to = 0;  // ranks, by number
  double bytes = 0;
};

struct Case {
  std::string name;
  Fabric fabric;
  uint32_t phases = 1;
  // The flows of a phase, made when they are needed.
  std::vector<CaseFlow> (*flows)(const Fabric& fabric, uint32_t phase);
};

// 8,192 random pairs of 1 to 64 MiB on the 1,024 hosts of fat-tree:k=16.
Case random_pairs();
// All pairs of 256 hosts there, of 64 KiB to 1 MiB, at once.
Case all_to_all();
// 1,024 hosts there, 1,023 phases: in phase s host i sends 64 KiB to host i + s.
Case shifts();

// The links of each flow; the same for all who simulate.
class Ways {
 public:
  explicit Ways(const Fabric& fabric);
  ~Ways();
  std::vector<LinkId> find(const CaseFlow& flow);

 private:
  struct Impl;
  Impl* impl_;
};

struct Answer {
  double makespan = 0;  // seconds
  double mean_end = 0;  // of all flows
  double cpu_seconds = 0;
  double of_all = 0;  // WindowError::of_all
};

Answer ours(const Case& what, Picoseconds window);

// After every event all rates again, by textbook water-filling over a heap of links. Slow, and obviously right.
Answer plain(const Case& what);

}  // namespace banyan::bench
