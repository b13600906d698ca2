#include "banyan/fabric/nccl_xml.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

// Each input is read as a dump and as a skeleton of a small cluster, which between them reach all figures.
const testing::Fuzzer kFuzzer("nccl_xml", "banyan/fabric/corpus/nccl", [](std::string_view input) {
  std::vector<std::string> notes;
  try {
    parse_nccl_xml(input, {}, "fuzz", notes);
  } catch (const Error&) {  // the second reading may still succeed: it brings what this one lacks
  }
  parse_nccl_xml(input, {.boxes = 3, .gpu = "h100", .nic = Bandwidth::gigabits_per_second(400)}, "fuzz", notes);
});

}  // namespace
}  // namespace banyan::fabric
