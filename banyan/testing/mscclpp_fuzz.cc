#include "banyan/testing/fuzz.h"
#include "banyan/testing/mscclpp_interpreter.h"

namespace banyan::testing {
namespace {

// Whatever the parser lets through must run to its end or be refused; only plans that are quickly run are.
void read_and_run(std::string_view input) {
  const MscclppPlan plan = parse_mscclpp(input);
  const MscclppRunOptions options{.seed = input.size()};
  const MemoryShape shape = shape_of(plan, options);
  uint64_t chunks = uint64_t{shape.ranks} * shape.total_chunks;
  for (const uint32_t scratch : shape.scratch_chunks) chunks += scratch;
  if (chunks <= 1000) run_mscclpp(plan, inputs_for(shape, 1), options);
}

const Fuzzer kFuzzer("mscclpp", "banyan/testing/fixtures/mscclpp", read_and_run);

}  // namespace
}  // namespace banyan::testing
