// Mismatch: the ranks that called something else than the others under the same number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/run/call/operation.h"

namespace banyan::run {

struct CallOfRank {
  uint32_t rank = 0;
  const OperationRecord* record = nullptr;
};

struct Mismatch {
  uint64_t sequence = 0;      // of the calls
  std::vector<uint32_t> odd;  // ascending: those that are not of the majority; all, where there is none
  std::string sentence;  // "rank 3 called allreduce #17 of ... where ranks 0, 1, 2 called allreduce #17 of ...: ..."
};

// Finds the first number under which not all called the same. Nothing when all agree. `calls`: collectives of any
// numbers, those of a number by ascending rank.
std::optional<Mismatch> find_mismatch(std::span<const CallOfRank> calls);

}  // namespace banyan::run
