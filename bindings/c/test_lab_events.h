// The networks of banyan_c_lab_runs, and what is done to them: both follow from a seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/c/test_lab_oracle.h"

namespace banyan::c {

struct LabTopology {
  std::string name;
  std::vector<std::string> nodes;  // the ranks come first
  LabGraph graph;
  // Any two ranks have ways without other ranks between them. Without, some of what goes between them takes whatever
  // way the network itself finds.
  bool is_switched = false;

  std::string cable_name(size_t cable) const;
  std::string fabric() const;  // in the text form
};

// A ring, a ring with a chord, a mesh; a star, two rails, two spines. All links have 100 Mb/s.
const std::vector<LabTopology>& lab_topologies();
// All ranks on one host, which has no cables.
const LabTopology& host_topology();

enum class LabMode {
  cuts,     // cables are cut, or lose what goes one way, and are mended
  resets,   // all TCP connections of a rank are reset
  rejects,  // a host answers whatever comes, or goes, by TCP with a reset, for half a second
  grey,     // a cable between two switches, of which there are several, loses what goes one way, and nobody notices
};
constexpr const char* kLabModes[] = {"cuts", "resets", "rejects", "grey"};

struct LabEvent {
  enum class Kind { cut, lose_one_way, mend, reset, reject_coming, reject_going, accept };
  LabTime at{0};
  Kind kind = Kind::cut;
  size_t cable = 0;
  size_t node = 0;          // whose sending is lost; or the rank that it is done to
  bool is_noticed = false;  // by the network, which finds other ways for what has no way of its own

  std::string in_words(const LabTopology& topology) const;
};

// In the order of their times. Every cable that is lost is mended in the end.
std::vector<LabEvent> lab_events(const LabTopology& topology, LabMode mode, uint64_t seed);

}  // namespace banyan::c
