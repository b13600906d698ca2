#include "banyan/schedule/export.h"

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/schedule/export_msccl.h"
#include "banyan/schedule/export_mscclpp.h"

namespace banyan {

ExportFormat parse_export_format(std::string_view text) {
  if (text == "msccl") return ExportFormat::msccl;
  if (text == "mscclpp") return ExportFormat::mscclpp;
  throw Error(ErrorCode::invalid_input,
              "unknown export format '" + std::string(text.substr(0, 40)) + "' (known: msccl, mscclpp)");
}

bool ExportFit::fits() const {
  return std::all_of(rows.begin(), rows.end(), [](const Row& row) { return row.needed <= row.allowed; });
}

Export export_schedule(const Schedule& schedule, ExportFormat format, const ExportOptions& options) {
  return format == ExportFormat::msccl ? export_msccl(schedule, options) : export_mscclpp(schedule, options);
}

}  // namespace banyan
