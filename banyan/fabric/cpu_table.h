// Bandwidth between two CPUs of a host, as far as anybody knows it: no description of a server says it.
//
// The figures are those that NCCL plans with (src/graph/topo.h and topo.cc; issues 1163, 2036, 2127 and 2336 of NCCL
// tell where they come from and where measurements beat them): what GPUs reach through both sockets, far below what the
// links are sold with. They are guesses, so links of theirs are marked as assumed (Link::assumed).
#pragma once

#include <cstdint>
#include <string_view>

#include "banyan/base/units.h"

namespace banyan::fabric {

struct CpuLink {
  Bandwidth rate{};
  std::string_view of{};  // "AMD Zen 3 and 4"; empty where the table does not know these CPUs: then the least of all
};

// As NCCL's XML names them: arch "x86_64", vendor "AuthenticAMD", the family and model of CPUID. Families of AMD may be
// those that NCCL wrote before it mended its sum: 143, 175, 191 for 23, 25, 26.
CpuLink cpu_link(std::string_view arch, std::string_view vendor, int64_t family, int64_t model);

}  // namespace banyan::fabric
