// MSCCL++ execution plans: one of the formats of export.h, described in docs/formats/mscclpp.md.
#pragma once

#include "banyan/schedule/export.h"

namespace banyan::schedule {

// Errors as export_schedule.
Export export_mscclpp(const Schedule& schedule, const ExportOptions& options);

}  // namespace banyan::schedule
