// Warnings about a fabric that is legal but looks wrong: mistakes that a plan would otherwise hide in its numbers.
#pragma once

#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// One line each, those of one kind together; of a kind that is found often the first few are named and the rest
// counted.
// - cables whose directions differ in bandwidth, and links without a way back between the same two nodes;
// - switches that no traffic can pass (at most one neighbour, or cut off), and switches whose inputs and outputs
// differ;
// - bandwidths and latencies that no product has, losses that no transport survives;
// - ranks that send or receive less than half as fast as the median rank.
// Same fabric, same lines. Complexity O((nodes + links) log links).
std::vector<std::string> warnings(const Fabric& fabric);

}  // namespace banyan::fabric
