#include "banyan/base/check.h"
#include "banyan/predict/report/html_report.h"
#include "banyan/predict/report/prediction_json.h"
#include "banyan/predict/report/test_prediction_reader.h"
#include "banyan/testing/fuzz.h"

namespace banyan::predict {
namespace {

// Every prediction that can be read can be shown, and reads back the same after it was written.
const testing::Fuzzer kFuzzer("prediction_json", "banyan/predict/report/corpus", [](std::string_view input) {
  const ReportInput prediction = read_prediction(input, "fuzz");
  const std::string text = format_prediction(prediction);
  CHECK(format_prediction(read_prediction(text, "again")) == text) << text;
  CHECK(!html_report(prediction, {.spans = 5, .ranks = 2, .links = 3, .lines = 3, .samples = 500}).empty());
});

}  // namespace
}  // namespace banyan::predict
