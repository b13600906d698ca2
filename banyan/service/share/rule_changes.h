// The changes that new rules would make, for operators who want to know before they are in force.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "banyan/service/share/rules.h"

namespace banyan::service {

// Calls of one kind, from `least` to `most` bytes; UINT64_MAX: and all that are larger.
struct CallRange {
  run::OperationKind kind = run::OperationKind::barrier;
  uint64_t least = 0, most = UINT64_MAX;

  friend bool operator==(const CallRange&, const CallRange&) = default;
};

struct RuleChange {
  size_t subject = 0;                   // its place among those asked for
  std::optional<CallRange> calls = {};  // for these alone; nothing: for the communicator, whatever it calls
  Grant from = {}, to = {};             // which differ

  friend bool operator==(const RuleChange&, const RuleChange&) = default;
};

// In the order of the subjects. For each, first the change for the communicator; then, where either table looks at
// calls, those of its calls that change otherwise, by kind and size, as ranges that are as large as can be. Unchanged
// calls are not listed. Kinds are those that a program calls. Two grants by rules of different names differ.
//
// Pure. Takes time O(subjects * kinds * size classes * rules) where a table looks at calls, else O(subjects * rules).
std::vector<RuleChange> changes(const Rules& from, const Rules& to, std::span<const Subject> subjects);

}  // namespace banyan::service
