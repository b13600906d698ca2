// The bound of a collective by trying every cut: the oracle for plan/bound.h, with which it shares no code.
//
// For a set S of nodes that leaves at least one participant outside, w(S) / W of the buffer must leave S over the
// bandwidth B+(S) of the links that go out of S. The answer is the largest w(S) / (W * B+(S)); for reduce-scatter and
// reduce on the reversed fabric, for allreduce the sum of both directions. Ranks that do not take part are deleted
// first.
#pragma once

#include "banyan/base/fraction.h"
#include "banyan/fabric/fabric.h"
#include "banyan/schedule/collective.h"

namespace banyan::testing {

// Participants and switches together. 2^20 cuts of some 60 links take about a second.
constexpr size_t kMaxBruteForceNodes = 20;

// Seconds per byte of the total M. Throws Error{invalid_input} when some cut has weight behind it but no link out of it
// (the participants reach each other only through other ranks), Error{unsupported} beyond kMaxBruteForceNodes.
Fraction brute_force_seconds_per_byte(const Fabric& fabric, const Collective& collective);

}  // namespace banyan::testing
