#include "banyan/fabric/json.h"
#include "banyan/fabric/warnings.h"
#include "banyan/testing/fabric_round_trip.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

const testing::Fuzzer kFuzzer("fabric_json", "banyan/fabric/corpus/json", [](std::string_view input) {
  const Fabric fabric = parse_fabric_json(input, "fuzz");
  testing::check_round_trip(fabric);
  for (const std::string& line : warnings(fabric)) CHECK(!line.empty());
});

}  // namespace
}  // namespace banyan::fabric
