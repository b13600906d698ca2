// The data that a page holds: the drawing with the load of every line, the busiest links, ranks, jobs, spans by track,
// points. Bounded, whatever the prediction's size; what is left out is said in "notes", which the page shows.
//
// Internal to the page (page/src/data.ts has the same shape); files for programs are prediction_json.h's.
#pragma once

#include <string>

#include "banyan/predict/report/report_input.h"

namespace banyan::predict::report {

std::string page_data(const ReportInput& input, const ReportLimits& limits);

}  // namespace banyan::predict::report
