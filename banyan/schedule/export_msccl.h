// MSCCL XML: one of the formats of export.h, described in docs/formats/msccl.md.
#pragma once

#include "banyan/schedule/export.h"

namespace banyan {

// Errors as export_schedule.
Export export_msccl(const Schedule& schedule, const ExportOptions& options);

}  // namespace banyan
