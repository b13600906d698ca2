// Options that a user adds to a file about one server: NCCL's XML, hwloc's XML, the table of nvidia-smi.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "banyan/base/units.h"

namespace banyan::fabric {

struct BoxOptions {
  // Copies of the file's box, joined by one cluster switch; by NVSwitches where the GPU's NVLink leaves the box.
  uint32_t boxes = 1;
  // A name of the device table, such as "h100": its links where the file has none, else its nominal speed for those.
  std::string gpu = {};
  // Bandwidth of each NIC. Needed for several boxes if the file gives no speed of NICs; else it replaces the file's.
  std::optional<Bandwidth> nic = {};
  // The NICs that join boxes, by the file's names: "NIC0,NIC1", or all but "-NIC2". Empty: those nearest to some GPU.
  std::string nics = {};
  // Bandwidth of one NVLink or xGMI link each way, in place of what the file or the device table says.
  std::optional<Bandwidth> nvlink = {};
  // Bandwidth of each link between two CPUs, each way; without it, it is assumed (cpu_table.h).
  std::optional<Bandwidth> cpu_link = {};
};

}  // namespace banyan::fabric
