#include "banyan/base/check.h"
#include "banyan/job/chakra/chakra.h"
#include "banyan/job/check.h"
#include "banyan/testing/fuzz.h"

namespace banyan::job::chakra {
namespace {

// One file as the trace of two ranks. What is read can be checked, and what is written reads back and writes as the
// same.
void read_and_write(std::string_view input) {
  const TraceText texts[] = {{"0", input}, {"1", input}};
  const std::string_view groups = R"({"g": [1, 0], "h": [0, 1]})";
  const Options options{.gather_size = Options::GatherSize::total,
                        .flop_per_second = 1e12,
                        .bytes_per_second = 1e9,
                        .dimensions = {2, 1}};
  const Job job = parse_job(texts, groups, options);
  check_job(job);
  const Files files = write_job(job, options);
  const TraceText again[] = {{"0", files.traces[0]}, {"1", files.traces[1]}};
  CHECK(write_job(parse_job(again, files.groups, options), options).traces == files.traces);
}

const testing::Fuzzer kFuzzer("chakra", "banyan/job/corpus/chakra", read_and_write);

}  // namespace
}  // namespace banyan::job::chakra
