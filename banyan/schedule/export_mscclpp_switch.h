// MSCCL++ plans for an allreduce of one box whose switch multicasts and reduces (NVLink SHARP), described in
// docs/formats/mscclpp.md.
#pragma once

#include <optional>

#include "banyan/schedule/export.h"

namespace banyan::schedule {

// The switch at which every tree of an allreduce branches, and no rank but the root: all contributions go to it and the
// sum from it to the root, and back. Nothing for any other schedule.
std::optional<NodeId> only_switch_of(const Schedule& schedule);

// For a schedule that has such a switch. Every rank has the switch sum what it is the root of, and multicast the
// result, in one operation. Errors as export_schedule.
Export export_mscclpp_switch(const Schedule& schedule, const ExportOptions& options);

}  // namespace banyan::schedule
