// Fabrics of one NVIDIA server, or of several like it, from the table that `nvidia-smi topo -m` prints.
// docs/formats/site-files.md says what is taken from it and what is assumed.
//
// The model is that of nccl_xml.h. The table tells how many NVLinks join two GPUs and which devices share a PCI switch
// or a CPU; it holds no speeds.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/box_options.h"
#include "banyan/fabric/fabric.h"
#include "banyan/fabric/site_file.h"

namespace banyan::fabric {

// The file's bandwidth is that of every link of PCI; needed. Assumptions are appended to `notes`. Throws
// Error{invalid_input}.
Fabric parse_gpu_matrix(const SiteFile& file, const BoxOptions& options, std::vector<std::string>& notes);

// True if a text looks like such a table.
bool is_gpu_matrix(std::string_view text);

}  // namespace banyan::fabric
