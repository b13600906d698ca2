// Predictions as JSON, "banyan": "prediction/1", described in docs/formats/prediction.md: for programs, and for making
// a page of one later (html_report.h).
//
// Spans and links are columns (arrays of one number each), so that a million spans are some 30 MB and no more keys than
// one span. Every quantity has its unit in its key.
#pragma once

#include <string>
#include <string_view>

#include "banyan/predict/report/report_input.h"

namespace banyan::predict {

// Appends text, without a tree in memory. read_prediction(format_prediction(x)) is x, to the last bit of every number.
std::string format_prediction(const ReportInput& input);

// Throws Error{invalid_input} with `where` (a file's name) and the place ("spans.name[7]") of what is wrong: broken
// JSON, missing or unknown keys, numbers out of range or that refer to nothing, spans out of order; Error{mismatch}
// when the numbers of links are not those of the fabric. Nesting deeper than the format's is refused before it is read.
// Memory: some 100 bytes per span beyond the text.
ReportInput read_prediction(std::string_view json, const std::string& where);

}  // namespace banyan::predict
