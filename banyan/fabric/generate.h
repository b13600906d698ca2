// Fabrics by name: vendor boxes, direct-connect topologies, data-centre networks.
//
//   dgx-a100:8   mi250:4   torus:8x8@1GB/s   leaf-spine:leaves=4,hosts=4,spines=2   random:n=16,links=40,seed=7
//
// Behind a spec "+nvls" and "+sharp" give switches the power to multicast and reduce (powers.h): dgx-h100:8+nvls.
//
// Same spec, same bytes. Nodes and links are numbered in a stated order and symmetries are declared where the topology
// has them, so that planners may plan one rank and rotate.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct GeneratorHelp {
  std::string spec;         // "torus:8x8x8[@BANDWIDTH]"
  std::string description;  // one line
};
std::vector<GeneratorHelp> fabric_generators();
// Suffixes that any of these specs may have: "+nvls".
std::vector<GeneratorHelp> fabric_suffixes();

// True if the text before ':' names a generator (the rest may still be wrong).
bool is_fabric_spec(std::string_view text);

// Throws Error{invalid_input} naming the parameter, its value and what is allowed.
Fabric generate_fabric(std::string_view spec);

}  // namespace banyan::fabric
