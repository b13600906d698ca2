// The one-line text form of a fabric, for tests, examples and quick questions.
//
//   a -> b 400Gb/s; b <-> c 100Gb/s 2us; sw: switch; a <-> sw 50 GB/s loss 1e-5
//
// Items are separated by ';' or new lines. `x -> y BANDWIDTH [LATENCY] [loss FRACTION] [assumed]` is one link, `<->` a
// cable (two links); spaces around the arrow may be left out. `assumed` says that the bandwidth is a guess.
// A node is declared by its first use and is a rank, unless `name: switch` or `name: rank` says otherwise, or its name
// starts with "sw" or "nvsw". A switch that does more is declared as `name: switch multicast reduce`, with one word or
// both. '#' starts a comment that runs to the end of its line.
#pragma once

#include <string_view>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

// Throws Error naming the item's line and column. `where` (a file's name) is put in front of it.
Fabric parse_fabric_text(std::string_view text, const std::string& where = "fabric text");

}  // namespace banyan::fabric
