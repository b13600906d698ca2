// Switches that give out what they take in: the theorems behind the packing need it (cut_condition.h), and floors or
// uneven links upset it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/plan/graph/network.h"

namespace banyan::plan {

bool is_balanced(const Network& network, std::span<const int64_t> capacity);

// Makes what enters each switch equal what leaves it, by taking capacity away where the cut condition, which holds,
// allows it. Arc by arc, so that it may fail where another choice of arcs would not: then a switch that stays
// unbalanced. A flow for every terminal for each arc at unbalanced switches.
std::optional<uint32_t> balance_switches(const Network& network, std::vector<int64_t>& capacity,
                                         const std::vector<int64_t>& supply);

}  // namespace banyan::plan
