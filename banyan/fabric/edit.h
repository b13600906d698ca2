// Edits of a fabric: what a failed cable, a slow port or a missing machine leaves, and what switches can do.
//
// A pair of nodes is written "a-b", as node_pair.h reads it.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct FabricEdit {
  enum class Kind : uint8_t {
    fail,        // "gpu3-gpu7": remove all links between two nodes, both directions; "gpu3": all links of a node, or
                 // of several (node_names.h)
    degrade,     // "gpu0-nvsw0=100GB/s": set the bandwidth of each link between two nodes, both directions; it is then
                 // given, no longer assumed
    remove,      // "gpu5": remove a node and its links; "n[1-4],m*": several
    in_network,  // "nvsw0": the switch multicasts and reduces; "nvsw0=multicast", "=reduce", "=none"; "nvsw*": all that
                 // begin so
  };
  Kind kind;
  std::string text;

  std::string to_string() const;  // as on the command line: "--fail gpu3-gpu7"
};

// The fabric after `edits`, in their order; an edit sees what the ones before it left. Nodes and links keep their
// order, so without a removed node all node numbers stay. Symmetries are proposed again when the nodes are unchanged,
// and are kept where they still hold (see Fabric::Builder::add_symmetry); an edit of every cable of an orbit may keep
// them.
//
// `left_out` are nodes that whoever read the fabric left out of it: that an edit removes them is right.
//
// Throws Error naming the edit when a name is not declared (with the nearest), a pair has no link (with what it does
// have), or nothing that can work is left (with the rank that is cut off).
Fabric edit_fabric(const Fabric& fabric, std::span<const FabricEdit> edits, std::span<const std::string> left_out = {});

}  // namespace banyan::fabric
