// Fabrics from Slurm's topology.conf: the tree of switches (topology/tree) or the blocks (topology/block) of a cluster.
// docs/formats/site-files.md says what is taken from the file and what is assumed.
//
// Every node of the cluster is a rank. The file does not say how fast links are: its bandwidth is the cable of a node.
// A switch is joined to the one above it by as much as all nodes below it have together.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/fabric.h"
#include "banyan/fabric/site_file.h"

namespace banyan::fabric {

struct SlurmOptions {
  std::vector<std::string> left_out = {};  // as --remove names nodes, which are not taken: before the parts are counted
  std::vector<std::string>* met = nullptr;                      // those nodes
  std::function<std::string(const std::string&)> include = {};  // the text of a file that the file includes
};

// Assumptions are appended to `notes`. Throws Error{invalid_input} when the file is no topology.conf, or its
// bandwidth is missing.
Fabric parse_slurm_topology(const SiteFile& file, std::vector<std::string>& notes, const SlurmOptions& options = {});

// True if a text looks like a topology.conf.
bool is_slurm_topology(std::string_view text);

}  // namespace banyan::fabric
