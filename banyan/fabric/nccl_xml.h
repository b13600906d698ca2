// Fabrics from NCCL topology XML, the format that NCCL and RCCL read and write; docs/formats/nccl-topology.md is its
// description and the list of figures.
//
// Two kinds of file exist. A *dump* (NCCL_TOPO_DUMP_FILE) is complete: PCI tree, GPUs, NVLinks or xGMI links, NICs.
// A *skeleton* (NCCL_TOPO_FILE, shipped by clouds) holds the PCI tree only; its GPUs and NICs are then recognised by
// their PCI class, and NVLink and NIC figures come from the options through the device table (device_table.h).
//
// The model: a rank per GPU ("gpu0", numbered over all boxes), one switch for all NVSwitches of a box ("nvsw0"), direct
// GPU links as cables, PCI switches and CPUs as switches ("pci0-0000:06:00.0", "cpu0-1"), NICs as switches ("nic0-0")
// and one cluster switch "ib0" that joins the boxes through the NICs. With one box NICs are left out. Every cable has
// one speed in both directions, so inputs and outputs of each switch are equal. Boxes are identical copies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "banyan/base/units.h"
#include "banyan/fabric/fabric.h"

namespace banyan {

struct NcclXmlOptions {
  uint32_t boxes = 1;  // copies of the file's box, joined by one cluster switch
  std::string gpu;     // a name of the device table such as "h100"; gives NVLink figures when the file has none
  std::optional<Bandwidth> nic;  // bandwidth of each NIC; needed when the file has no net elements, else replaces them
};

// `where` (a file's name) is put in front of what is wrong, with the line. Throws Error{invalid_input} when the XML is
// broken, is of hwloc, or lacks figures that no option gave; Error{unsupported} beyond the size of a Fabric.
Fabric parse_nccl_xml(std::string_view xml, const NcclXmlOptions& options, const std::string& where);

}  // namespace banyan
