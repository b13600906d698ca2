// Links and cables of a fabric, by number and as operators call them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// Indexed by link: its name, "leaf0->spine1", or "leaf0->spine1#2" for the third of several; its bytes per second; its
// cable (cables.h).
std::vector<std::string> link_names(const Fabric& fabric, const std::string& arrow = "->");
std::vector<double> link_bandwidths(const Fabric& fabric);
std::vector<uint32_t> link_cables(const Fabric& fabric);
// The cables between two nodes, by number: "leaf0-spine1", "leaf0->spine1", "leaf0 -> spine1", or one of several
// "leaf0-spine1#2". Throws Error{not_found} with the nearest name.
std::vector<uint32_t> cables_called(const Fabric& fabric, const std::string& name);

}  // namespace banyan::fabric
