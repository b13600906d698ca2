// What a user adds to a file that describes one server: NCCL's XML, hwloc's XML, the table of nvidia-smi.
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
  // Of each NIC. Needed for several boxes when the file does not say how fast NICs are, else replaces what it says.
  std::optional<Bandwidth> nic = {};
  // Which NICs join boxes, by the file's names: "NIC0,NIC1", or all but "-NIC2". Empty: those nearest to some GPU.
  std::string nics = {};
  // Of one NVLink or xGMI link each way, instead of what the file or the device table says.
  std::optional<Bandwidth> nvlink = {};
  // Of each link between two CPUs, each way, which is assumed else.
  std::optional<Bandwidth> cpu_link = {};
};

}  // namespace banyan::fabric
