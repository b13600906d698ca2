#include "banyan/fabric/slurm_topology.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

const testing::Fuzzer kFuzzer("slurm_topology", "banyan/fabric/corpus/slurm", [](std::string_view input) {
  std::vector<std::string> notes;
  (void)is_slurm_topology(input);
  parse_slurm_topology({input, "fuzz", Bandwidth::gigabits_per_second(400)}, notes);
});

}  // namespace
}  // namespace banyan::fabric
