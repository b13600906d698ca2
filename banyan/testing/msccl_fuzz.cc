#include "banyan/testing/fuzz.h"
#include "banyan/testing/msccl_interpreter.h"

namespace banyan::testing {
namespace {

// Whatever the parser lets through must run to its end or be refused; only programs that are quickly run are.
void read_and_run(std::string_view input) {
  const MscclProgram program = parse_msccl(input);
  MscclRunOptions options{.seed = input.size(), .loops = 2};
  const MemoryShape shape = shape_of(program, options);
  uint64_t chunks = uint64_t{shape.ranks} * shape.total_chunks;
  for (const uint32_t scratch : shape.scratch_chunks) chunks += scratch;
  if (chunks > 1000) return;
  for (const bool in_place : {false, true}) {
    options.in_place = in_place;
    if (in_place ? program.in_place : program.out_of_place) run_msccl(program, inputs_for(shape, 1), options);
  }
}

const Fuzzer kFuzzer("msccl", "banyan/testing/fixtures/msccl", read_and_run);

}  // namespace
}  // namespace banyan::testing
