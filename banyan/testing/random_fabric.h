// Random strongly connected fabrics for property tests. Same seed, same fabric.
#pragma once

#include <cstdint>

#include "banyan/fabric/fabric.h"

namespace banyan::testing {

struct RandomFabricOptions {
  uint32_t ranks = 5;
  uint32_t switches = 0;
  uint32_t extra_cables = 4;   // beyond a spanning ring of ranks, or of ranks hung on switches
  uint32_t max_gigabytes = 8;  // bandwidths are 1..max GB/s
  bool directed = false;       // the two directions of a cable get different bandwidths between ranks; some links are
                               // one-way. Switches stay balanced: what enters equals what leaves.
  bool powers = false;         // each switch multicasts and reduces, each by the toss of a coin
  uint64_t seed = 1;
};

Fabric random_fabric(const RandomFabricOptions& options);

}  // namespace banyan::testing
