// Fabrics of one server, or of several like it, from hwloc's XML, which `lstopo topo.xml` writes (versions 1 and 2).
// docs/formats/site-files.md says what is taken from it and what is assumed.
//
// The model is that of nccl_xml.h: GPUs are ranks, PCI switches and CPUs are switches. The file says how fast PCI links
// are, and, since hwloc 2.5 and where the vendor's library was there, NVLink and xGMI in matrices of bandwidths; of
// NICs it says nothing: BoxOptions do.
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

// The file's bandwidth is that of PCI links whose speed it gives as 0, as it does where lstopo had not the rights to
// ask. Assumptions are appended to `notes`. Throws as parse_nccl_xml does.
Fabric parse_hwloc_xml(const SiteFile& file, const BoxOptions& options, std::vector<std::string>& notes);

// True if an XML looks like hwloc's.
bool is_hwloc_xml(std::string_view xml);

}  // namespace banyan::fabric
