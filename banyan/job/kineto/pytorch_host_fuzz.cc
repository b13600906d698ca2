#include "banyan/base/check.h"
#include "banyan/job/kineto/pytorch_host.h"
#include "banyan/testing/fuzz.h"

namespace banyan::job::kineto {
namespace {

const testing::Fuzzer kFuzzer("pytorch_host", "banyan/job/corpus/pytorch_host", [](std::string_view input) {
  const HostTrace trace = read_host_trace(TraceSource::from_text(input, "fuzz"));
  for (size_t i = 0; i < trace.nodes.size(); ++i) {
    const HostNode& node = trace.nodes[i];
    CHECK(node.name < trace.names.size());
    CHECK(node.parent == HostNode::kNone || node.parent < i);
    CHECK(node.comm == HostNode::kNone || node.comm < trace.comms.size());
  }
});

}  // namespace
}  // namespace banyan::job::kineto
