// From the floating-point answers of overlap_program.h to integers that are right.
#pragma once

#include <optional>

#include "banyan/plan/bound/overlap.h"
#include "banyan/plan/bound/overlap_program.h"

namespace banyan::plan {

// The witness that the dual of the last answer gives; without an answer, that of the rank that can send or receive
// least: it must do both once. Its bound is counted, whatever the rounding.
CutsWitness rounded_witness(const OverlapProgram& program, const OverlapQuestion& question);

// Rates taken for fractions: shares that reach them exactly, or nothing when the fractions are too fine or rounding
// went wrong.
std::optional<OverlapShares> exact_shares(const OverlapRates& rates, const OverlapQuestion& question);

// Rates rounded down to whole units, of as few as suffice, for at least 1 - 2^-14 of their throughput. Nothing when
// even 2^38 units do not.
std::optional<OverlapShares> rounded_shares(const OverlapRates& rates, const OverlapQuestion& question);

}  // namespace banyan::plan
