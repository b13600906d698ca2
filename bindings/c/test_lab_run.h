// A run in a lab: a network is set up, a process at each rank calls again and again, and meanwhile cables are cut and
// mended, or connections reset.
#pragma once

#include <cstdint>
#include <string>

#include "bindings/c/test_lab_events.h"
#include "bindings/c/test_lab_verdict.h"

namespace banyan::c {

struct LabWish {
  const LabTopology& topology;
  LabMode mode = LabMode::cuts;
  uint64_t seed = 1;
  std::string name;    // of the lab
  std::string folder;  // for logs and flight records
};

struct LabStory {
  LabVerdict verdict;
  std::string told = {};  // what was done, and how the ranks have ended
};

// Why there can be no such runs here; empty: there can.
std::string why_no_lab_run(LabMode mode);

// Leaves the lab up when the process is killed: end_lab() clears it away. Throws Error where the system refuses.
LabStory run_in_lab(const LabWish& wish);
void end_lab(const std::string& name);

}  // namespace banyan::c
