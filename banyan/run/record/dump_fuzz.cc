#include "banyan/base/check.h"
#include "banyan/run/record/diagnosis.h"
#include "banyan/run/record/dump.h"
#include "banyan/testing/fuzz.h"

namespace banyan::run {
namespace {

// What is read can be written and read again, and diagnosed, alone and twice as another rank's.
const testing::Fuzzer kFuzzer("flight_recorder", "banyan/run/record/corpus", [](std::string_view input) {
  const RankDump dump = parse_dump(input);
  CHECK(parse_dump(dump_to_json(dump)).operations == dump.operations);
  if (dump.size > 4096) return;  // slow, and tells nothing new
  std::vector<RankDump> dumps{dump, dump};
  dumps[1].rank = (dump.rank + 1) % dump.size;
  if (dumps[1].operations.size() > 1) dumps[1].operations.pop_back();
  const Diagnosis diagnosis = diagnose(dumps);
  CHECK_EQ(diagnosis.communicators.size(), 1u);
  for (const Finding& finding : diagnosis.findings) CHECK(!finding.sentence.empty());
});

}  // namespace
}  // namespace banyan::run
