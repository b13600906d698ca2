#include "banyan/fabric/gpu_matrix.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

// Each input is read as one server and as a small cluster of it.
const testing::Fuzzer kFuzzer("gpu_matrix", "banyan/fabric/corpus/gpu_matrix", [](std::string_view input) {
  std::vector<std::string> notes;
  const Bandwidth pci = Bandwidth::gigabytes_per_second(24);
  (void)is_gpu_matrix(input);
  try {
    parse_gpu_matrix({input, "fuzz", pci}, {}, notes);
  } catch (const Error&) {  // the second reading may still succeed: it brings what this one lacks
  }
  parse_gpu_matrix({input, "fuzz", pci}, {.boxes = 3, .gpu = "b200", .nic = Bandwidth::gigabits_per_second(400)},
                   notes);
});

}  // namespace
}  // namespace banyan::fabric
