// etcd, by which real daemons find each other, is killed or stopped while a job calls: what was open goes on, what is
// new is opened, and operators are told what is away. And it comes after its daemons, as when a whole cluster is
// switched on. Each host is a name here (BANYAN_HOST_ID).
#include <signal.h>
#include <stdlib.h>

#include "apps/banyand/test_banyand.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/cluster/host_directory.h"
#include "banyan/service/cluster/test_etcd.h"
#include "banyan/service/cluster/test_etcd_process.h"
#include "banyan/service/http/client.h"
#include "banyan/service/view/view_json.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Communicator;

constexpr uint32_t kHosts = 2;

class WithEtcd : public ::testing::Test, protected DaemonFolder {
 protected:
  void SetUp() override {
    if (!is_there("etcd")) GTEST_SKIP() << "etcd is not installed (Debian: etcd-server)";
  }

  ClusterView seen_at(uint32_t host) const {
    return cluster_view_from(http_ask(url_of(host) + ".operators", "GET", "/v1/cluster", "", seconds(20)).body);
  }

  // Of both ranks, as a rank of theirs needs it.
  static std::string sum(Communicator& comm, uint64_t step) {
    std::vector<int64_t> values(1000);
    const auto value_of = [&](uint32_t rank, size_t i) {
      return static_cast<int64_t>(rank * 1'000'003 + step * 7919 + i);
    };
    for (size_t i = 0; i < values.size(); ++i) values[i] = value_of(comm.rank(), i);
    comm.all_reduce<int64_t>(values, values);
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != value_of(0, i) + value_of(1, i)) return "element " + std::to_string(i) + " is wrong";
    }
    return "";
  }

  std::unique_ptr<BanyandProcess> daemon_of(uint32_t host, const EtcdProcess& etcd) const {
    BanyandProcess::Options options = options_of(host, {"--operators", socket_of(host) + ".operators"});
    options.world = "etcd://" + etcd.place() + "/banyan";
    return std::make_unique<BanyandProcess>(std::move(options));
  }
  static bool is_healthy(const ClusterView& seen) {
    return seen.hosts.size() == kHosts && seen.unreachable.empty() && seen.findings.empty();
  }

  // What a daemon says is wrong, or nothing when that is what it should be: it knows so many hosts, and no etcd.
  std::string judge(uint32_t host, uint32_t hosts) const {
    const ClusterView seen = seen_at(host);
    std::string all = std::to_string(seen.hosts.size()) + " hosts;";
    for (const UnreachableHost& each : seen.unreachable) all += " " + each.host + " is unreachable: " + each.why + ";";
    for (const FindingView& each : seen.findings) all += " " + each.kind + ": " + each.words + ";";
    const bool is_right = seen.hosts.size() == hosts && seen.unreachable.empty() && seen.findings.size() == 1 &&
                          seen.findings[0].kind == "directory" &&
                          seen.findings[0].words.find("etcd does not answer") != std::string::npos;
    return is_right ? "" : all;
  }

  // Joins at its host's daemon, and does what is asked.
  std::string be_rank(uint32_t rank,
                      const std::function<std::string(Communicator& comm, const Communicator::Options& own)>& body) {
    setenv("BANYAN_HOST_ID", name_of(rank).c_str(), 1);
    run::RegionPool pool;
    const auto link = std::make_shared<ServiceLink>(url_of(rank), pool, run::Deadline::after(seconds(30)));
    const Communicator::Options options = options_by(link, seconds(60));
    Communicator comm = Communicator::join(pool, {.url = meeting(), .rank = rank, .size = kHosts, .name = {}}, options);
    if (std::string wrong = sum(comm, 0); !wrong.empty()) return wrong;
    std::string wrong = body(comm, options);
    if (wrong.empty()) comm.finalize();
    return wrong.empty() ? "right" : wrong;
  }
};

class EtcdGone : public WithEtcd, public ::testing::WithParamInterface<int> {
 protected:
  std::string call_without_it(Communicator& comm, const Communicator::Options& options, const EtcdProcess& etcd) {
    const uint32_t rank = comm.rank();
    if (rank == 0) kill(etcd.id(), GetParam());
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t step = 1; step <= 3; ++step) {
      if (std::string wrong = sum(comm, step); !wrong.empty()) return wrong;
      std::optional<Communicator> other = comm.split(0, static_cast<int>(rank), options);
      if (std::string wrong = sum(*other, step); !wrong.empty()) return wrong;
      other->finalize();
    }
    if (std::chrono::steady_clock::now() - begin > seconds(20)) return "communicators are opened late";
    std::string wrong;
    const bool is_told = comes_true([&] { return (wrong = judge(rank, kHosts)).empty(); }, seconds(30));
    return is_told ? sum(comm, 4) : wrong;
  }
};

TEST_P(EtcdGone, LeavesDaemonsThatKnowEachOtherToGoOnAndIsOneFinding) {
  EtcdProcess etcd(folder_);
  etcd.start();
  const std::unique_ptr<HostDirectory> directory = HostDirectory::at("etcd://" + etcd.place() + "/banyan");
  ASSERT_TRUE(comes_true([&] { return testing::error_of([&] { directory->find("host0"); }) == "no error"; }));
  std::vector<std::unique_ptr<BanyandProcess>> daemons;
  for (uint32_t host = 0; host < kHosts; ++host) daemons.push_back(daemon_of(host, etcd));
  // They see each other first: whom a daemon was never asked for it does not know.
  for (uint32_t host = 0; host < kHosts; ++host) {
    ASSERT_TRUE(comes_true([&] { return is_healthy(seen_at(host)); }));
  }
  const auto reports = run::run_processes(kHosts, seconds(100), [&](uint32_t rank) {
    return be_rank(
        rank, [&](Communicator& comm, const Communicator::Options& own) { return call_without_it(comm, own, etcd); });
  });
  EXPECT_THAT(reports, Each("right"));
  for (const auto& daemon : daemons) EXPECT_FALSE(daemon->has_ended());
}
INSTANTIATE_TEST_SUITE_P(KilledAndStopped, EtcdGone, ::testing::Values(SIGKILL, SIGSTOP));

// After a power cut, or where etcd runs on the hosts that its daemons are on: nobody has to start them once more.
using EtcdLate = WithEtcd;
TEST_F(EtcdLate, IsWaitedForByDaemonsThatServeWithinFiveSecondsOfIt) {
  EtcdProcess etcd(folder_);
  std::vector<std::unique_ptr<BanyandProcess>> daemons;
  for (uint32_t host = 0; host < kHosts; ++host) daemons.push_back(daemon_of(host, etcd));
  for (uint32_t host = 0; host < kHosts; ++host) EXPECT_EQ(judge(host, 1), "");
  etcd.start();
  const std::unique_ptr<HostDirectory> directory = HostDirectory::at("etcd://" + etcd.place() + "/banyan");
  ASSERT_TRUE(comes_true([&] { return testing::error_of([&] { directory->find("host0"); }) == "no error"; }));
  const auto begin = std::chrono::steady_clock::now();
  for (uint32_t host = 0; host < kHosts; ++host) {
    EXPECT_TRUE(comes_true([&] { return is_healthy(seen_at(host)); }));
  }
  const auto reports = run::run_processes(kHosts, seconds(100), [&](uint32_t rank) {
    return be_rank(rank, [](Communicator&, const Communicator::Options&) { return ""; });
  });
  EXPECT_THAT(reports, Each("right"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
  for (const auto& daemon : daemons) EXPECT_FALSE(daemon->has_ended());
}

}  // namespace
}  // namespace banyan::service
