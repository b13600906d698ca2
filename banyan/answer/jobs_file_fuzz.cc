#include "banyan/answer/jobs_file.h"
#include "banyan/answer/train_step.h"
#include "banyan/base/check.h"
#include "banyan/testing/fuzz.h"

namespace banyan::answer {
namespace {

const testing::Fuzzer kFuzzer("jobs_file", "banyan/answer/corpus/jobs", [](std::string_view input) {
  for (const JobEntry& job : parse_jobs_file(input)) {
    CHECK_EQ(job.train.has_value() + !job.goal.empty() + !job.chakra.empty(), 1);
    CHECK(job.weight > 0 && job.start.count() >= 0);
    if (!job.train || !job.train->devices.empty()) continue;  // which would be any file of this machine
    try {
      make_train_setup(*job.train);
    } catch (const Error&) {
    }
  }
});

}  // namespace
}  // namespace banyan::answer
