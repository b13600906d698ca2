// A reader of predictions, "banyan": "prediction/1", for tests: it refuses whatever is not as
// docs/formats/prediction.md says, so that what is written can be held against it.
#pragma once

#include <string>
#include <string_view>

#include "banyan/predict/report/report_input.h"

namespace banyan::predict {

// read_prediction(format_prediction(x)) is x, to the last bit of every number. Throws Error{invalid_input} with `where`
// (a file's name) and the place ("spans.name[7]") of what is wrong: broken JSON, missing or unknown keys, numbers out
// of range or that refer to nothing, spans out of order; Error{mismatch} when the numbers of links are not those of the
// fabric. Nesting deeper than the format's is refused before it is read. Memory: some 100 bytes per span beyond the
// text.
ReportInput read_prediction(std::string_view json, const std::string& where);

}  // namespace banyan::predict
