// Predictions as JSON, "banyan": "prediction/1", described in docs/formats/prediction.md, for programs.
//
// Spans and links are columns (arrays of one number each), so that a million spans are some 30 MB and no more keys than
// one span. Every quantity has its unit in its key.
#pragma once

#include <string>

#include "banyan/predict/report/report_input.h"

namespace banyan::predict {

// Appends text, without a tree in memory. Numbers read back as the same, to the last bit.
std::string format_prediction(const ReportInput& input);

}  // namespace banyan::predict
