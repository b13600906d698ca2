#include "banyan/predict/train/rows.h"
#include "banyan/testing/fuzz.h"

namespace banyan::predict {
namespace {

const testing::Fuzzer kFuzzer("train_rows", "banyan/predict/train/corpus/rows",
                              [](std::string_view input) { parse_train_rows(input, {}); });

}  // namespace
}  // namespace banyan::predict
