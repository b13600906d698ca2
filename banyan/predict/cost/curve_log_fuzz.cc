#include "banyan/predict/cost/curve_log.h"
#include "banyan/testing/fuzz.h"

namespace banyan::predict {
namespace {

const testing::Fuzzer kFuzzer("curve_log", "banyan/predict/cost/corpus/curve_log",
                              [](std::string_view input) { parse_curve_log(input); });

}  // namespace
}  // namespace banyan::predict
