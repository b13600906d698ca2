// Fabrics as our own JSON, "banyan": "fabric/1", described in docs/formats/fabric.md and docs/formats/fabric.schema.json.
#pragma once

#include <string>
#include <string_view>

#include "banyan/fabric/fabric.h"

namespace banyan {

// Throws Error{invalid_input} with line and column for broken JSON and the path (links[3].bandwidth) for wrong values.
Fabric parse_fabric_json(std::string_view json, const std::string& where);

// One directed link per line, in the order of their numbers: link k of the fabric is the k-th entry, and parsing gives
// back the same fingerprint. Cables are not folded into "both". Symmetries are written too ("symmetries": permutations as
// arrays of node numbers) and proposed again on parsing.
std::string format_fabric_json(const Fabric& fabric);

}  // namespace banyan
