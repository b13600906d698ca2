// The choice of a build of the kernels in reduce.h.
//
// The best build that the machine has runs, unless the environment variable BANYAN_ISA names a lower one: to compare
// them, or to step round a fault. All builds give the same bits, so ranks of one job may differ.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace banyan::element {

enum class Isa : uint8_t {
  portable,  // any machine
  avx2,      // x86-64 with AVX2 and F16C
  avx512     // x86-64 with AVX-512 F, BW and VL
};
std::string_view to_string(Isa isa);

// Those that this machine and this build of the library have, worst first.
std::vector<Isa> available_isas();

// The best one, or what `requested` (the value of BANYAN_ISA) names; an empty name asks for none. Throws
// Error{invalid_input} for an unknown name and Error{unsupported} for one that is not available; both list what is.
Isa choose_isa(std::optional<std::string_view> requested);

// The one in use, chosen from the environment by the first caller. Throws what choose_isa throws, so call it where an
// error can be reported, before the first reduction.
Isa active_isa();

// From now on, in all threads. It must be available. For tests and benchmarks.
void use_isa(Isa isa);

}  // namespace banyan::element
