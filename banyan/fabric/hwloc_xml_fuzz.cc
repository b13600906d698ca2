#include "banyan/fabric/hwloc_xml.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

const testing::Fuzzer kFuzzer("hwloc_xml", "banyan/fabric/corpus/hwloc", [](std::string_view input) {
  std::vector<std::string> notes;
  (void)is_hwloc_xml(input);
  parse_hwloc_xml({input, "fuzz", Bandwidth::gigabytes_per_second(24)},
                  {.boxes = 3, .gpu = "h100", .nic = Bandwidth::gigabits_per_second(400)}, notes);
});

}  // namespace
}  // namespace banyan::fabric
