// Link lengths: the witness of the bound of an all-to-all.
//
// Give every link a length. Whatever path a byte takes from one participant to another, it crosses at least their
// distance; a link of bandwidth b and length l takes in b * l of that a second. So with T(s,t) parts for each pair, no
// schedule is faster than `crossed` / `carried` seconds for one part (arc_lengths.h has the same for networks):
//
//   crossed = sum of T(s,t) * dist(s,t),  carried = sum of bandwidth * length
//
// Ranks that do not take part forward nothing; those that do, may. A cut is the case of lengths 1 across it and 0
// elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"
#include "banyan/schedule/collective.h"

namespace banyan::plan {

struct LinkLengths {
  std::vector<uint64_t> length;  // by link of the fabric
  int128 crossed = 0;            // length * parts of the traffic
  int128 carried = 0;            // length * bytes a second

  // Seconds per byte of the total M of their all-to-all. Throws Error{unsupported} when that does not fit a Fraction.
  Fraction seconds_per_byte(const Collective& collective) const;
};

// Measures all distances anew, on the fabric itself: whether the numbers are those of these lengths.
// O(participants * links log links).
bool holds(const LinkLengths& lengths, const Fabric& fabric, const Collective& collective);

// "a byte crosses at least 4.06 links on its way, on average, and all 256 links carry 12.8 TB/s together".
std::string describe(const LinkLengths& lengths, const Fabric& fabric, const Collective& collective);

}  // namespace banyan::plan
