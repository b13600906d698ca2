// RankReading: one rank's traces and what was found out about them, while its draft is made. The makers of a draft read
// it; each adds to the draft what its header says.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "banyan/job/kineto/launch.h"
#include "banyan/job/kineto/link.h"
#include "banyan/job/kineto/pytorch_host.h"
#include "banyan/job/kineto/trace.h"

namespace banyan::job::kineto {

struct RankReading {
  Trace trace;
  std::optional<HostTrace> host;
  std::vector<uint32_t> parents;  // by event, see nest_operators
  std::vector<uint32_t> node_of;  // by event: of the host trace; empty where there is none
  Launches launches;

  uint32_t event_count() const { return static_cast<uint32_t>(trace.events.size()); }
  const Event& event(uint32_t i) const { return trace.events[i]; }
  std::string_view name(uint32_t i) const { return trace.name(trace.events[i]); }
  // HostLinks::kNone where an event has none.
  uint32_t node(uint32_t i) const { return node_of.empty() ? HostLinks::kNone : node_of[i]; }
};

}  // namespace banyan::job::kineto
