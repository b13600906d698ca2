// Fabrics as our own JSON, "banyan": "fabric/1", described in docs/formats/fabric.md and
// docs/formats/fabric.schema.json.
//
//   {"banyan": "fabric/1",
//    "nodes": [{"name": "gpu0", "kind": "rank"}, {"name": "gpu1", "kind": "rank"}],
//    "links": [{"from": "gpu0", "to": "gpu1", "bandwidth": "300 GB/s", "latency": "1 us", "both": true}]}
//
// The keys may stand in any order. Anything that is not understood is refused, never ignored.
#pragma once

#include <string>
#include <string_view>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// Throws Error{invalid_input} with the line and column of broken JSON, and with the line and the path
// (links[3].bandwidth) of a wrong value; Error{unsupported} beyond the size of a Fabric. `where` (a file's name) is put
// in front. Not thread-bound; 10^6 nodes and links take 2-3 s.
Fabric parse_fabric_json(std::string_view json, const std::string& where);

// One directed link per line, in the order of their numbers: link k of the fabric is the k-th entry, and parsing gives
// back the same fingerprint. Cables are not folded into "both". Symmetries are written too ("symmetries": permutations
// as arrays of node numbers) and proposed again on parsing.
std::string format_fabric_json(const Fabric& fabric);

}  // namespace banyan::fabric
