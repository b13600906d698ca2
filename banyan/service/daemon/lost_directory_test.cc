// The place where daemons find each other goes away while they and their programs go on.

#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Communicator;

// What is wrong, in one line.
std::string findings_of(const ClusterView& view) {
  std::string all;
  for (const FindingView& each : view.findings) all += each.kind + ": " + each.words + "; ";
  for (const UnreachableHost& each : view.unreachable) all += each.host + " is unreachable; ";
  return all;
}

TEST_F(Services, OpenCommunicatorsAndShowAllHostsWhileTheDirectoryIsAway) {
  expect_right(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    const std::vector<int64_t> input = values_of(comm.rank(), 100);
    std::vector<int64_t> output(100);
    const std::string world = folder_ + "/world";
    check_sum(comm, input, output);  // by then all have opened it
    if (comm.rank() == 0) {
      if (const std::string wrong = findings_of(cluster(0)); !wrong.empty()) return wrong;
      std::filesystem::rename(world, world + ".away");
    }
    for (int times = 0; times < 3; ++times) {
      if (std::string report = check_sum(comm, input, output); report != "right") return report;
      std::optional<Communicator> other = comm.split(0, static_cast<int>(comm.rank()), own_options_);
      if (std::string report = check_sum(*other, input, output); report != "right") return report;
      other->finalize();
    }
    const ClusterView seen = cluster(comm.rank());
    const std::string wrong = findings_of(seen);
    if (seen.hosts.size() != 2 || !seen.unreachable.empty()) return "not all hosts are seen: " + wrong;
    if (seen.findings.size() != 1 || seen.findings[0].kind != "directory") return "another finding: " + wrong;
    if (wrong.find("the folder " + world + " does not answer") == std::string::npos) return wrong;
    if (std::string report = check_sum(comm, input, output); report != "right") return report;
    if (comm.rank() == 0) std::filesystem::rename(world + ".away", world);
    if (std::string report = check_sum(comm, input, output); report != "right") return report;
    // Each daemon lists hosts anew every two seconds.
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!findings_of(cluster(comm.rank())).empty() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(100));
    }
    if (const std::string still = findings_of(cluster(comm.rank())); !still.empty()) return still;
    return check_sum(comm, input, output);
  });
}

}  // namespace
}  // namespace banyan::service
