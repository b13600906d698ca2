#include "banyan/fabric/text.h"
#include "banyan/testing/fabric_round_trip.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

const testing::Fuzzer kFuzzer("fabric_text", "banyan/fabric/corpus/text",
                              [](std::string_view input) { testing::check_round_trip(parse_fabric_text(input)); });

}  // namespace
}  // namespace banyan::fabric
