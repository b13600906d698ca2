// A prediction as one HTML page that needs no network and no other file: drawing of the fabric with its links coloured
// by load, timeline of ranks and links, where the time went, bottlenecks, what would help, throughput by size.
//
// The page is built from page/ (TypeScript, bundled by esbuild) into page/dist/report.html, which is committed and
// compiled in. Its policy (a meta tag) forbids the browser to load anything.
#pragma once

#include <string>

#include "banyan/predict/report/report_input.h"

namespace banyan::predict {

// Names in `input` may hold anything; none of it becomes markup or code. At most limits.spans spans and so on are put
// in, and the page says what was left out; with the limits as they are it stays below some 10 MB.
std::string html_report(const ReportInput& input, const ReportLimits& limits = {});

}  // namespace banyan::predict
