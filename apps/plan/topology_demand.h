// banyan topology --demand: links for a demand, with what no topology can beat and what others would do.
#pragma once

#include <string>
#include <vector>

#include "apps/command.h"
#include "banyan/base/fraction.h"
#include "banyan/base/units.h"

namespace banyan::app {

struct DemandTopologyOptions {
  std::vector<std::string> demands;  // files
  uint32_t ports = 0;                // 0: not given
  Bandwidth bandwidth;
  Fraction uncertainty;
  std::string output;
  bool two_hop = false, direct = false, one_way = false, json = false;
};

// --demand, --ports, --uncertainty, --two-hop, --direct, --one-way. The caller adds --bandwidth, -o and --json.
void declare_demand_options(CommandSyntax& command, DemandTopologyOptions& options);

// Chooses the links, writes the fabric where `output` says, and prints. Throws Error that names the option or the file.
ExitCode answer_demand_topology(const Terminal& terminal, const DemandTopologyOptions& options);

}  // namespace banyan::app
