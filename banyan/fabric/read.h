// Fabrics from outside: what the command line calls FABRIC.
//
// A FABRIC is
//   - the path of a file, told by its contents: our JSON, the text form, an NCCL topology XML, hwloc's XML (lstopo),
//     what `nvidia-smi topo -m` or `ibnetdiscover` prints, or Slurm's topology.conf. If a file does not say how fast
//     its links are, a bandwidth stands behind its name: topology.conf@400Gb/s; or
//   - a generator's spec such as "dgx-h100:8" (generate.h); a file of that name wins; or
//   - the text form itself (text.h), which is known by an arrow: "a <-> b 400Gb/s; b <-> c 100Gb/s".
// Edits are applied on top in the order given (edit.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/fabric/box_options.h"
#include "banyan/fabric/edit.h"
#include "banyan/fabric/fabric.h"
#include "banyan/fabric/warnings.h"

namespace banyan::fabric {

struct FabricSource {
  // Larger files are refused; a fabric of kMaxLinks links stays below it.
  static constexpr uint64_t kMaxFileBytes = uint64_t{2} << 30;

  std::string fabric;  // path, spec or text
  std::vector<FabricEdit> edits = {};
  BoxOptions box = {};  // for files that describe one server: NCCL's and hwloc's XML, nvidia-smi
};

// Throws Error naming file, line, value and mend; nothing else whatever the bytes are. Assumptions about what a file
// does not say are appended to `notes`, one line each.
Fabric load_fabric(const FabricSource& source, std::vector<std::string>* notes = nullptr);

}  // namespace banyan::fabric
