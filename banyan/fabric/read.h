// Fabrics from outside: what the command line calls FABRIC.
//
// A FABRIC is a path of a file (our JSON, the text form, or an NCCL topology XML; told apart by their contents) or a
// generator's spec such as "dgx-h100:8@..."; see generate.h. Edits are applied on top in the order given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan {

struct FabricEdit {
  enum class Kind : uint8_t {
    fail,     // "gpu3-gpu7": remove all links between two nodes, both directions; "gpu3": all links of a node
    degrade,  // "gpu0-nvsw0=100GB/s": set the bandwidth of the links between two nodes, both directions
    remove,   // "gpu5": remove a node and its links
  };
  Kind kind;
  std::string text;
};

struct FabricSource {
  std::string fabric;               // path or spec
  std::vector<FabricEdit> edits = {};
  // For NCCL XML only: the number of boxes joined by one switch, and figures that a skeleton file does not hold.
  uint32_t boxes = 1;
  std::string gpu = {};             // a name of the device table, such as "h100"
  std::optional<Bandwidth> nic = {};  // of each NIC
};

// Throws Error naming file, line, value and mend; nothing else whatever the bytes are.
Fabric load_fabric(const FabricSource& source);

// What looks wrong though it is legal, one line each: a cable whose directions differ, a switch without ranks behind it or whose inputs and
// outputs differ, a speed that no product has, a rank with far less bandwidth than its peers, a one-way link.
std::vector<std::string> warnings(const Fabric& fabric);

}  // namespace banyan
