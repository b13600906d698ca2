// GPUs by name: the speed of their own links, and how a server wires them. Nominal figures per direction, from the
// vendors' data sheets; docs/formats/nccl-topology.md lists them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "banyan/base/units.h"

namespace banyan::fabric {

enum class GpuWiring : uint8_t {
  none,        // no links of their own: PCIe only
  nvswitch,    // every GPU's links end at the NVSwitches of the box
  all_to_all,  // every GPU is joined directly to every other
  mesh,        // a mesh that the vendor fixed: `mesh` says which GPUs are joined
  bridge,      // bridges that the owner puts between some GPUs: a description must say which
};

// Links between two GPUs of a box, by their places in it.
struct GpuCable {
  uint32_t a, b;
  uint32_t links;
};

struct GpuModel {
  std::string_view name;
  std::string_view description;
  Bandwidth link;  // of one link
  uint32_t links;  // of one GPU
  GpuWiring wiring;
  uint32_t box;  // GPUs in a box where the wiring fixes it, else 0
  std::span<const GpuCable> mesh = {};
  uint32_t nvlink_domain = 0;  // GPUs that NVLink joins beyond a box, by NVSwitches of a rack; 0: it does not leave it

  Bandwidth all_links() const { return Bandwidth::bytes_per_second(link.bytes_per_second() * links); }
};

std::span<const GpuModel> gpu_models();

// Throws Error{not_found} with the nearest and all known names. The name is read without regard to case.
const GpuModel& gpu_model(std::string_view name);

}  // namespace banyan::fabric
