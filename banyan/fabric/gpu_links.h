// Links that join the GPUs of a box besides PCI: NVLink, xGMI. The one place that says how many links a GPU can have.
//
// A GPU has as many links as --gpu says, else as its generation has (NcclBox::Gpu::most_links). A description may tell
// how many links two GPUs have in common (`rows_are_pairs`). If an NVSwitch is in between, these counts add up to more
// links than a GPU has: then all links go there, from each GPU as many as the largest count of its row. Without --gpu,
// the largest count among GPUs that are joined tells what they have: 6, 8, 12 or 18 are all the links of a GPU that the
// device table knows behind NVSwitches; any other count leaves it open, up to 18. Private to this folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/fabric/device_table.h"
#include "banyan/fabric/nccl_box.h"

namespace banyan::fabric {

struct GpuLinks {
  struct Direct {
    uint32_t from, to;  // one direction
    NcclBox::Speed speed;
  };
  std::vector<Direct> direct;                     // by `from`, `to`
  std::vector<NcclBox::Speed> to_switch, to_cpu;  // by GPU, each way; a rate of 0: none

  using Pair = std::pair<uint32_t, uint32_t>;
  // The first two GPUs that are joined, directly in both directions or by the NVSwitch; or that are not.
  std::optional<Pair> first_pair(bool joined) const;
};

// `model`: what --gpu names, or nullptr. Throws Error where a GPU would have more links than there are, where options
// contradict the description, and where neither of them says what links there are.
GpuLinks links_of_gpus(const NcclBox& box, const BoxOptions& options, const GpuModel* model,
                       std::vector<std::string>& notes);

}  // namespace banyan::fabric
