#include "banyan/predict/cost/collective_cost.h"
#include "banyan/predict/cost/devices.h"
#include "banyan/testing/fuzz.h"

namespace banyan::predict {
namespace {

// Files of devices and of collective costs: the first line of a file says nothing, so both readers are given all.
const testing::Fuzzer kFuzzer("devices", "banyan/predict/cost/corpus/devices", [](std::string_view input) {
  try {
    parse_collective_costs(input);
  } catch (const Error&) {
  }
  DeviceTable::parse(input, DeviceTable::builtin());
});

}  // namespace
}  // namespace banyan::predict
