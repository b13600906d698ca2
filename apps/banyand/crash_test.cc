// banyand is killed at moments drawn by chance, while ranks of two hosts call through it. Each host is a name here
// (BANYAN_HOST_ID); each daemon and each rank is a process.
//
// BANYAN_TEST_KILLS: how often, in the long test. BANYAN_TEST_SEED: the moments.
#include <stdlib.h>

#include <iostream>

#include "apps/banyand/test_banyand.h"
#include "apps/banyand/test_crashes.h"
#include "banyan/run/system/processes.h"
#include "banyan/testing/shared_among_processes.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class Crashes : public ::testing::Test, protected DaemonFolder {
 protected:
  std::string keep_daemons(uint32_t kills, uint64_t seed) {
    std::mt19937_64 chance(seed);
    const auto wait_at_most = [&](int most) {
      std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<int>(0, most)(chance)));
    };
    std::vector<std::unique_ptr<BanyandProcess>> daemons;
    for (uint32_t host = 0; host < kHosts; ++host) daemons.push_back(daemon_of(host));
    std::filesystem::create_directory(folder_ + "/up");
    std::this_thread::sleep_for(milliseconds(500));
    for (uint32_t kill = 0; kill < kills; ++kill) {
      wait_at_most(200'000);
      const auto host = static_cast<uint32_t>(chance() % kHosts);
      CHECK(!daemons[host]->has_ended()) << "the daemon of host " << host << " has ended";
      board_->note_kill(host);
      daemons[host]->kill_now();
      wait_at_most(50'000);
      daemons[host]->start();
    }
    board_->is_over = true;
    while (!std::filesystem::exists(folder_ + "/over")) std::this_thread::sleep_for(milliseconds(5));
    return "";
  }

  void go_through(uint32_t kills, seconds at_most) {
    const uint64_t seed = seed_of_test();
    const std::vector<std::string> reports = run::run_processes(1 + kRanks, at_most, [&](uint32_t number) {
      if (number == kRanks) return keep_daemons(kills, seed);
      while (!std::filesystem::exists(folder_ + "/up")) std::this_thread::sleep_for(milliseconds(2));
      const uint32_t host = number % kHosts;
      setenv("BANYAN_HOST_ID", name_of(host).c_str(), 1);
      std::string report = RecoveringRank(*board_, number, url_of(host), meeting()).run();
      std::filesystem::create_directory(folder_ + "/over" + std::to_string(number));
      // The daemons last until all ranks are done.
      if (number == 0) {
        for (uint32_t rank = 1; rank < kRanks; ++rank) {
          while (!std::filesystem::exists(folder_ + "/over" + std::to_string(rank))) {
            std::this_thread::sleep_for(milliseconds(2));
          }
        }
        std::filesystem::create_directory(folder_ + "/over");
      }
      return report;
    });
    judge(reports, kills);
  }

  static void judge(const std::vector<std::string>& reports, uint32_t kills) {
    std::vector<double> own, told;
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      std::istringstream report(reports[rank]);
      uint64_t errors = 0, calls = 0;
      report >> errors >> calls;
      for (double each = 0; report >> each;) (each > 0 ? own : told).push_back(std::abs(each));
      std::cout << "rank " << rank << ": " << errors << " errors, " << calls << " calls\n";
      EXPECT_GT(errors, 0u) << "rank " << rank << " has noticed nothing";
      EXPECT_GT(calls, 0u) << "rank " << rank << " has never gone on";
    }
    std::cout << kills << " kills" << std::endl;
    expect_soon("of a rank's own daemon", std::move(own));
    expect_soon("told by another rank", std::move(told));
  }

  // How long after a kill errors came, in milliseconds, on a machine that may be crowded.
  static void expect_soon(const std::string& what, std::vector<double> late) {
    if (late.empty()) return;
    std::sort(late.begin(), late.end());
    const auto over = late.end() - std::upper_bound(late.begin(), late.end(), 100);
    std::cout << late.size() << " errors " << what << ": " << late[late.size() / 2] << " ms in the median, "
              << late.back() << " ms at most, " << over << " over 100 ms" << std::endl;
    constexpr size_t kEnough = 5;  // of fewer, a single late one may be the median; the long test has enough
    if (late.size() >= kEnough) {
      EXPECT_LT(late[late.size() / 2], 100);
    }
    EXPECT_LT(late.back(), 5000);
  }

  const testing::SharedAmongProcesses<CrashBoard> board_;
};

TEST_F(Crashes, CostProgramsTheCallsUnderWayAndNothingElse) { go_through(6, seconds(100)); }

TEST_F(Crashes, ManyCostProgramsTheCallsUnderWayAndNothingElse) {
  go_through(number_from("BANYAN_TEST_KILLS", 200), seconds(800));
}

}  // namespace
}  // namespace banyan::service
