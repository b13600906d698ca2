// Communicators of several hosts whose calls go through the daemons of these hosts. Each host is a name here
// (BANYAN_HOST_ID), each daemon and each rank a process.
#include "banyan/service/daemon/daemon.h"

#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Call;
using run::Communicator;
using run::OperationKind;

TEST_F(Services, SumWhatRanksOfTwoHostsGive) {
  expect_right(4, 2, [](Communicator& comm, run::RegionPool&) -> std::string {
    for (const size_t count : {1, 3, 1000, 200'000}) {
      if (std::string report = sum(comm, count); report != "right") return report;
    }
    return "right";
  });
}

TEST_F(Services, TakeMemoryThatIsSharedWithThemAsItIs) {
  expect_right(3, 3, [](Communicator& comm, run::RegionPool& pool) -> std::string {
    constexpr size_t kCount = 100'000;
    auto* const memory = reinterpret_cast<int64_t*>(pool.allocate(2 * kCount * sizeof(int64_t)));
    for (int times = 0; times < 3; ++times) {
      const std::vector<int64_t> input = values_of(comm.rank(), kCount);
      std::copy(input.begin(), input.end(), memory);
      if (std::string report = check_sum(comm, {memory, kCount}, {memory + kCount, kCount}); report != "right") {
        return report;
      }
    }
    return "right";
  });
}

TEST_F(Services, CarryMessages) {
  expect_right(4, 2, [](Communicator& comm, run::RegionPool&) -> std::string {
    constexpr size_t kMessages = 50;
    const uint32_t next = (comm.rank() + 1) % comm.size(), before = (comm.rank() + comm.size() - 1) % comm.size();
    std::vector<std::vector<int64_t>> sent, got;
    std::vector<run::Request> requests;
    for (size_t i = 0; i < kMessages; ++i) {
      got.emplace_back(i * 100 + 1);
      Call call = call_of<int64_t>(OperationKind::recv, {}, got.back(), got.back().size());
      call.other = before;
      requests.push_back(comm.start(call));
    }
    for (size_t i = 0; i < kMessages; ++i) {
      sent.push_back(values_of(comm.rank() + 10 * static_cast<uint32_t>(i), i * 100 + 1));
      Call call = call_of<int64_t>(OperationKind::send, sent.back(), {}, sent.back().size());
      call.other = next;
      requests.push_back(comm.start(call));
    }
    for (run::Request& request : requests) request.wait();
    for (size_t i = 0; i < kMessages; ++i) {
      if (got[i] != values_of(before + 10 * static_cast<uint32_t>(i), i * 100 + 1)) {
        return "message " + std::to_string(i) + " is wrong";
      }
    }
    return "right";
  });
}

TEST_F(Services, NameRanksThatCallSomethingElse) {
  expect_right(2, 2, [](Communicator& comm, run::RegionPool&) -> std::string {
    std::vector<int64_t> buffer(100);
    try {
      comm.run(call_of<int64_t>(OperationKind::all_reduce, buffer, buffer, comm.rank() == 0 ? 100 : 99));
    } catch (const Error& error) {
      return error.code() == ErrorCode::mismatch ? "right" : error.what();
    }
    return "no error";
  });
}

// How often a buffer is summed in three seconds, as a text.
std::string count_sums(Communicator& comm) {
  constexpr size_t kCount = 32'768;
  std::vector<int64_t> input = values_of(comm.rank(), kCount), output(kCount);
  const auto end = std::chrono::steady_clock::now() + seconds(3);
  for (int sums = 1;; ++sums) {
    // What rank 0 says, so that both end after the same sum.
    input.back() = comm.rank() == 0 && std::chrono::steady_clock::now() >= end ? 1 : 0;
    comm.run(call_of<int64_t>(OperationKind::all_reduce, input, output, kCount));
    if (output.front() != value_of(0, 0) + value_of(1, 0)) return "wrong";
    if (output.back() > 0) return std::to_string(sums);
  }
}

// Nothing but the gates limits what goes over the loopback here, so this is what they do.
TEST_F(Services, ShareALinkByTheWeightsOfTenants) {
  daemons_.planner.fabric = "h0 <-> h1 80Mb/s";
  use_rules(R"({"version": 1, "rules": [{"name": "more", "match": {"tenant": ")" + std::to_string(getuid()) +
            R"(/t0"}, "then": {"weight": 3}}]})");
  tenants_ = {"t0", "t1"};
  ranks_per_job_ = 2;
  const auto reports = run_ranks(4, 2, [](Communicator& comm, run::RegionPool&) { return count_sums(comm); });
  const int more = std::stoi(reports[0]), less = std::stoi(reports[2]);
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_EQ(reports[2], reports[3]);
  EXPECT_NEAR(static_cast<double>(more) / less, 3, 0.6) << more << " and " << less;
  // 10 MB/s less headers, and 256 KiB a sum, for three seconds.
  EXPECT_LE(more + less, 0.94 * 1e7 * 3 / (32'768 * 8) + 12);
  EXPECT_GE(more + less, 0.6 * 1e7 * 3 / (32'768 * 8));
}

// Rings alone take the first of equal ways, both of these the same one.
TEST_F(Services, HaveTenantsThatMeetOnOneOfTwoWaysPlanAroundEachOther) {
  daemons_.planner.fabric =
      "h0 <-> swa 160Mb/s; h1 <-> swb 160Mb/s; swa <-> sws 80Mb/s; sws <-> swb 80Mb/s; swa <-> swt 80Mb/s; "
      "swt <-> swb 80Mb/s";
  use_rules(R"({"version": 1, "rules": [{"name": "rings", "match": {}, "then": {"plan": "ring"}}]})");
  tenants_ = {"t0", "t1"};
  ranks_per_job_ = 2;
  const auto reports = run_ranks(4, 2, [](Communicator& comm, run::RegionPool&) { return count_sums(comm); });
  const int sums = std::stoi(reports[0]) + std::stoi(reports[2]);
  EXPECT_GE(sums, 1.3 * 0.94 * 1e7 * 3 / (32'768 * 8)) << "one way alone has room for 107";
}

TEST_F(Services, EndACommunicatorWithTheWordsOfTheRuleThatDeniesACall) {
  use_rules(R"({"version": 1, "rules": [{"name": "no floods", "match": {"kind": "allreduce", "bytes": "64KiB.."},
                                         "then": {"deny": "use smaller pieces"}}]})");
  const auto reports = run_ranks(2, 2, [](Communicator& comm, run::RegionPool&) -> std::string {
    for (const size_t count : {1, 8191}) {
      if (std::string report = sum(comm, count); report != "right") return report;
    }
    std::vector<int64_t> all(2 * 8192);  // of another kind, and larger
    const std::vector<int64_t> own = values_of(comm.rank(), 8192);
    // Whoever is through may make the next call, which ends the communicator for those who are still in this one.
    const std::string early =
        testing::error_of([&] { comm.run(call_of<int64_t>(OperationKind::all_gather, own, all, own.size())); });
    if (early != "no error") return early;
    if (all.back() != value_of(1, 8191)) return "wrong";
    return testing::error_of([&] { comm.run(call_of<int64_t>(OperationKind::all_reduce, own, all, own.size())); });
  });
  EXPECT_THAT(reports, Each(HasSubstr("deny this call (allreduce of 64 KiB): use smaller pieces (rule 'no floods')")));
}

TEST_F(Services, HoldLargeCallsToTheirCapAndNoOthers) {
  daemons_.planner.fabric = "h0 <-> h1 8Gb/s";
  use_rules(R"({"version": 1, "rules": [{"name": "slow", "match": {"bytes": "128KiB.."}, "then": {"cap": "5MB/s"}}]})");
  const auto reports = run_ranks(2, 2, [](Communicator& comm, run::RegionPool&) -> std::string {
    const auto seconds_of = [&](size_t count, int sums) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < sums; ++i) CHECK(sum(comm, count) == "right");
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    // 5 MB each: what is small is not held back.
    return std::to_string(seconds_of(32'768, 20)) + " " + std::to_string(seconds_of(8192, 80));
  });
  for (const std::string& report : reports) {
    const double large = std::stod(report), small = std::stod(report.substr(report.find(' ')));
    EXPECT_GE(large, 0.95);
    EXPECT_LE(large, 2);
    EXPECT_LE(small, 0.5 * large);
  }
}

TEST_F(Services, GoOverToThePlansThatARuleNames) {
  daemons_.planner.fabric = "h0 <-> h1 8Gb/s; h1 <-> h2 8Gb/s; h2 <-> h0 8Gb/s";
  use_rules(R"({"version": 1, "rules": [{"name": "rings", "match": {}, "then": {"plan": "ring"}}]})");
  expect_right(3, 3, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::vector<int64_t> input = values_of(comm.rank(), 10'000), output(input.size());
    const auto end = std::chrono::steady_clock::now() + seconds(20);
    for (bool is_over = false; !is_over;) {
      if (std::chrono::steady_clock::now() > end) return "no other plans";
      if (std::string report = check_sum(comm, input, output); report != "right") return report;
      const HostView view = host_view_from(ask(comm.rank(), "GET", "/v1/host").body);
      const int64_t own = view.communicators.at(0).ranks.at(0).generation >= 1 ? 1 : 0;
      int64_t all = 0;  // have gone over
      comm.run(call_of<int64_t>(OperationKind::all_reduce, std::span(&own, 1), std::span(&all, 1), 1));
      is_over = all == comm.size();
    }
    return "right";
  });
}

TEST_F(Services, LetOtherUsersInOnlyWhereTheyAreMeantTo) {
  namespace fs = std::filesystem;
  const auto others = [](const std::string& socket) {
    return fs::status(socket).permissions() & (fs::perms::group_all | fs::perms::others_all);
  };
  const std::string own = folder_ + "/own", all = folder_ + "/all";
  const Daemon for_its_user({.socket = own});
  const Daemon for_all({.socket = all, .is_for_all_users = true});
  EXPECT_EQ(others(own), fs::perms::none);
  EXPECT_EQ(others(all),
            fs::perms::group_read | fs::perms::group_write | fs::perms::others_read | fs::perms::others_write);
}

}  // namespace
}  // namespace banyan::service
