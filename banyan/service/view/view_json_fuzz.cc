#include "banyan/base/check.h"
#include "banyan/service/view/view_json.h"
#include "banyan/testing/fuzz.h"

namespace banyan::service {
namespace {

// What is read can be written and is then read as the same; whatever hosts say can be put together.
const testing::Fuzzer kHostFuzzer("host_view", "banyan/service/view/corpus/host", [](std::string_view input) {
  const HostView view = host_view_from(input);
  CHECK(host_view_from(to_json(view)) == view);
  size_t ranks = 0;
  for (const CommunicatorView& each : view.communicators) ranks += 2 * each.ranks.size();
  const ClusterView cluster = merge({view, view}, {}, view.at);
  for (const CommunicatorView& each : cluster.communicators) ranks -= each.ranks.size();
  CHECK(ranks == 0) << ranks;
});

}  // namespace
}  // namespace banyan::service
