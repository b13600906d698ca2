// MSCCL XML: one of the formats of export.h, described in docs/formats/msccl.md.
#pragma once

#include "banyan/schedule/export.h"

namespace banyan::schedule {

// Errors as export_schedule.
// `sizes`: that the file is for, in words, for a comment.
Export export_msccl(const Schedule& schedule, const ExportOptions& options, const std::string& sizes);

}  // namespace banyan::schedule
