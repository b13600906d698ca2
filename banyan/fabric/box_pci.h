// The part of a box's PCI tree that a fabric has, and the NICs that it has.
//
// GPUs that NVLink joins send to one another by NVLink alone: no GPU runtime uses PCI beside it. So if NVLink joins
// every two GPUs of a box, the tree leads from each NIC to the GPUs nearest to it and nowhere else, with no more
// bandwidth at a GPU than its NICs take; one box alone has no tree. Otherwise GPUs need the tree for each other and
// have all of it: then PCI stands beside NVLink for pairs that have both. Private to this folder.
//
// A NIC is near a GPU in the measure of NCCL: behind the same PCI switch, at the same CPU, at another CPU of the host.
// One for which every GPU has a nearer NIC serves storage or management, and is left out.
#pragma once

#include <string>
#include <vector>

#include "banyan/fabric/nccl_box.h"

namespace banyan::fabric {

// Keeps of the box's NICs those that --nics names, else those that are the nearest of some GPU. Says in `notes` which
// are left out. Throws Error{not_found} with the nearest name, Error{invalid_input} for a list that leaves none.
void choose_near_nics(NcclBox& box, const BoxOptions& options, std::vector<std::string>& notes);

struct PciLinks {
  std::vector<bool> up;             // by Switch: whether its link to its parent is kept
  std::vector<bool> gpu;            // by GPU: whether its link to PCI is
  std::vector<Bandwidth> gpu_most;  // by GPU: what it may be used for at most; only where `gpu`
  bool between_cpus = false;        // whether links between CPUs are kept
};

// `gpus_are_joined`: by NVLink, every two.
PciLinks pci_links_of(const NcclBox& box, bool gpus_are_joined);

}  // namespace banyan::fabric
