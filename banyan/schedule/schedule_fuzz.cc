#include "banyan/base/check.h"
#include "banyan/schedule/cost.h"
#include "banyan/schedule/schedule_file.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/fuzz.h"

namespace banyan::schedule {
namespace {

// Whatever can be read can be verified and written, and what was written reads back as the same plan; a plan that the
// verifier accepts costs what it says.
const testing::Fuzzer kFuzzer("schedule", "banyan/schedule/corpus", [](std::string_view input) {
  const ScheduleFile file = parse_schedule(input, "fuzz");
  const std::string text = format_schedule(file);
  CHECK(format_schedule(parse_schedule(text, "again")) == text) << text;
  const Verdict verdict = verify(file.schedule, file.claimed_seconds_per_byte);
  if (verdict.valid) {
    CHECK(verdict.seconds_per_byte == seconds_per_byte(file.schedule)) << text;
  } else {
    CHECK(!verdict.reason.empty());
  }
});

}  // namespace
}  // namespace banyan::schedule
