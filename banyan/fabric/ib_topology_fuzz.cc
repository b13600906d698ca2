#include "banyan/fabric/ib_topology.h"
#include "banyan/testing/fuzz.h"

namespace banyan::fabric {
namespace {

const testing::Fuzzer kFuzzer("ib_topology", "banyan/fabric/corpus/ib", [](std::string_view input) {
  std::vector<std::string> notes;
  (void)is_ib_topology(input);
  parse_ib_topology(input, "fuzz", notes, {.fallback = Bandwidth::gigabits_per_second(200)});
});

}  // namespace
}  // namespace banyan::fabric
