#include "banyan/design/demand.h"
#include "banyan/testing/fuzz.h"

namespace banyan::design {
namespace {

const testing::Fuzzer kFuzzer("demand_csv", "banyan/design/corpus",
                              [](std::string_view input) { parse_demand_csv(input, "fuzz"); });

}  // namespace
}  // namespace banyan::design
