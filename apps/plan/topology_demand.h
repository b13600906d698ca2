// banyan topology --demand: links for a demand, with what no topology can beat and what others would do.
#pragma once

#include <string>
#include <vector>

#include "apps/command.h"

namespace banyan::app {

// The options, as texts.
struct DemandTopologyTexts {
  std::vector<std::string> demands;  // files
  std::string ports, bandwidth, uncertainty, output;
  bool two_hop = false, direct = false, one_way = false, json = false;
};

// --demand, --ports, --uncertainty, --two-hop, --direct, --one-way. The caller adds --bandwidth, -o and --json.
void declare_demand_options(CommandSyntax& command, DemandTopologyTexts& texts);

// Chooses the links, writes the fabric where `output` says, and prints. Throws Error that names the option or the file.
ExitCode answer_demand_topology(const Terminal& terminal, const DemandTopologyTexts& texts);

}  // namespace banyan::app
