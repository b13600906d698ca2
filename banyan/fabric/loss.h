// Loss rates as people write them, and fabrics without the links that lose too much.
#pragma once

#include <string>
#include <string_view>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// A fraction of packets, from 0 to below 1: "0.001", "1e-5". Throws Error{invalid_input} on anything else.
double parse_loss(std::string_view text);
std::string format_loss(double loss);  // the shortest that reads back the same

// The fabric without the cables (cables.h) of which either direction loses more than `most`: a cable is taken out
// whole, so that switches still give out as much as they take in. Nodes keep their numbers; symmetries as in edit.h.
//
// Throws Error{invalid_input} when that cuts off a rank, with the cable that is needed: of those that would join all
// ranks again, the one with the least loss that must be allowed.
Fabric without_lossy_links(const Fabric& fabric, double most);

}  // namespace banyan::fabric
