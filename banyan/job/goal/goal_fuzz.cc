#include "banyan/base/check.h"
#include "banyan/job/check.h"
#include "banyan/job/goal/goal.h"
#include "banyan/testing/fuzz.h"

namespace banyan::job::goal {
namespace {

// What is read can be checked and written, and what is written reads back and writes as the same text.
void read_and_write(std::string_view input) {
  const Job job = parse_job(input, "fuzz");
  check_job(job);
  const std::string text = write_job(job);
  CHECK(write_job(parse_job(text, "again")) == text);
}

const testing::Fuzzer kFuzzer("goal", "banyan/job/corpus/goal", read_and_write);

}  // namespace
}  // namespace banyan::job::goal
