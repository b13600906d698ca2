#include "banyan/element/isa.h"

#ifdef BANYAN_X86_KERNELS
#include <cpuid.h>
#endif

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/element/reduce_kernels.h"

namespace banyan::element {
namespace {

constexpr std::array<std::string_view, 3> kNames = {"portable", "avx2", "avx512"};  // in the order of the enumerators

// Written once as a rule, by whoever comes first; those who come at the same time write the same.
std::atomic<const internal::Kernels*> active{nullptr};

bool machine_has(Isa isa) {
  if (isa == Isa::portable) return true;
#ifdef BANYAN_X86_KERNELS
  // __builtin_cpu_supports asks the operating system too whether it saves the registers.
  if (isa == Isa::avx512) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && machine_has(Isa::avx2);
  }
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
#else
  return false;
#endif
}

const internal::Kernels* kernels_of(Isa isa) {
#ifdef BANYAN_X86_KERNELS
  if (isa == Isa::avx512) return &internal::avx512_kernels();
  if (isa == Isa::avx2) return &internal::avx2_kernels();
#endif
  CHECK(isa == Isa::portable) << static_cast<int>(isa) << " is not part of this build";
  return &internal::portable_kernels();
}

}  // namespace

std::string_view to_string(Isa isa) { return kNames[static_cast<size_t>(isa)]; }

std::vector<Isa> available_isas() {
  std::vector<Isa> available;
  for (const Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (machine_has(isa)) available.push_back(isa);
  }
  return available;
}

Isa choose_isa(std::optional<std::string_view> requested) {
  const std::vector<Isa> available = available_isas();
  if (!requested || requested->empty()) return available.back();
  std::string known;
  for (const Isa isa : available) {
    if (to_string(isa) == *requested) return isa;
    known += (known.empty() ? "" : ", ") + std::string(to_string(isa));
  }
  NearestName nearest(*requested);
  for (const std::string_view name : kNames) {
    if (name == *requested) {
      throw Error(ErrorCode::unsupported, "this machine has no " + std::string(name) + "; it has " + known,
                  "BANYAN_ISA");
    }
    nearest.offer(name);
  }
  throw invalid("unknown instruction set '" + std::string(requested->substr(0, 60)) + "'" + nearest.hint() +
                "; this machine has " + known)
      .within("BANYAN_ISA");
}

Isa active_isa() {
  [[maybe_unused]] const internal::Kernels* kernels = &internal::active_kernels();
#ifdef BANYAN_X86_KERNELS
  if (kernels == &internal::avx512_kernels()) return Isa::avx512;
  if (kernels == &internal::avx2_kernels()) return Isa::avx2;
#endif
  return Isa::portable;
}

void use_isa(Isa isa) {
  CHECK(machine_has(isa)) << to_string(isa);
  active.store(kernels_of(isa), std::memory_order_relaxed);
}

const internal::Kernels& internal::active_kernels() {
  const Kernels* kernels = active.load(std::memory_order_relaxed);
  if (kernels == nullptr) [[unlikely]] {
    const char* requested = std::getenv("BANYAN_ISA");
    kernels = kernels_of(choose_isa(requested == nullptr ? std::nullopt : std::optional<std::string_view>(requested)));
    active.store(kernels, std::memory_order_relaxed);
  }
  return *kernels;
}

}  // namespace banyan::element
