// Fabrics from NCCL topology XML, the format that NCCL and RCCL read and write; docs/formats/nccl-topology.md is its
// description and the list of figures.
//
// Two kinds of file exist. A *dump* (NCCL_TOPO_DUMP_FILE) is complete: PCI tree, GPUs, NVLinks or xGMI links, NICs.
// A *skeleton* (NCCL_TOPO_FILE, shipped by clouds) holds the PCI tree only; its GPUs and NICs are then recognised by
// their PCI class, and NVLink and NIC figures come from the options through the device table (device_table.h).
//
// The model: a rank per GPU ("gpu0", numbered by dev where the file says it), one switch for all NVSwitches of a box
// ("nvsw0"), direct GPU links, CPUs and PCI switches as switches ("cpu0", "pci0000:1a:00.0"). With one box NICs are
// left out. Several boxes are identical copies with names "box2/gpu0"; their NICs are switches ("box2/nic0") that one
// cluster switch "ib0" joins. All but direct GPU links are cables, so inputs and outputs of every switch are equal; a
// direct link has the count that the file gives for its direction. Boxes can be rotated: that symmetry is declared.
// If NVLink joins all GPUs of a box, PCI leads from them to NICs only (box_pci.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/fabric/box_options.h"
#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// `where` (a file's name) is put in front of what is wrong, with the line; what was assumed is appended to `notes`.
// Throws Error{invalid_input} when the XML is broken, is of hwloc, or lacks figures that no option gave;
// Error{unsupported} beyond the size of a Fabric.
Fabric parse_nccl_xml(std::string_view xml, const BoxOptions& options, const std::string& where,
                      std::vector<std::string>& notes);

}  // namespace banyan::fabric
