// A Kineto trace; after a line "-----" a host trace may follow, and after another one the next rank's.
#include "banyan/base/check.h"
#include "banyan/job/check.h"
#include "banyan/job/kineto/kineto.h"
#include "banyan/testing/fuzz.h"

namespace banyan::job::kineto {
namespace {

const testing::Fuzzer kFuzzer("kineto", "banyan/job/corpus/kineto", [](std::string_view input) {
  constexpr std::string_view kLine = "\n-----\n";
  std::vector<RankTraceTexts> ranks;
  for (bool host = false; ranks.size() < 4; host = !host) {
    const size_t end = std::min(input.find(kLine), input.size());
    if (host) {
      ranks.back().host = input.substr(0, end);
    } else {
      ranks.push_back({.kineto = input.substr(0, end), .host = {}, .rank = {}});
    }
    if (end == input.size()) break;
    input.remove_prefix(end + kLine.size());
  }
  const LinkedJob read = read_job(ranks);
  for (const std::string& line : read.report.lines()) CHECK(!line.empty());
  // What ranks lost was put back, so they agree, unless a circle of messages was in the trace itself.
  for (const Finding& finding : check_job(read.job)) {
    CHECK(finding.kind != Finding::Kind::collective_mismatch && finding.kind != Finding::Kind::missing_member &&
          finding.kind != Finding::Kind::length_mismatch)
        << finding.text;
  }
});

}  // namespace
}  // namespace banyan::job::kineto
