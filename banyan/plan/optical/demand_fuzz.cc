#include "banyan/plan/optical/demand.h"
#include "banyan/testing/fuzz.h"

namespace banyan::plan {
namespace {

const testing::Fuzzer kFuzzer("demand_csv", "banyan/plan/optical/corpus",
                              [](std::string_view input) { parse_demand_csv(input, "fuzz"); });

}  // namespace
}  // namespace banyan::plan
