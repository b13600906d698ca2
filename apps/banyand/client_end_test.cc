// Programs end at moments drawn by chance, killed or stopped, while others call through the same daemons: that costs
// these nothing, and the daemons keep nothing of them. Each host is a name here (BANYAN_HOST_ID).
//
// BANYAN_TEST_ENDS: how often, in the long test. BANYAN_TEST_SEED: the moments.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <iostream>

#include "apps/banyand/test_banyand.h"
#include "banyan/base/check.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/processes.h"
#include "banyan/testing/shared_among_processes.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Communicator;

constexpr uint32_t kHosts = 2;
// Descriptors: the daemons call each other when there is something to be said.
constexpr size_t kBetweenDaemons = 1;

// In memory that the processes of a test share.
struct Board {
  std::atomic<uint64_t> sums;
  std::atomic<bool> is_over;
};

// Rank `rank` of a job of two, on a host of its own.
class Member {
 public:
  Member(uint32_t rank, const std::string& url, const std::string& meeting)
      : rank_(rank), link_(std::make_shared<ServiceLink>(url, pool_, run::Deadline::after(seconds(30)))) {
    comm_.emplace(Communicator::join(pool_, {.url = meeting, .rank = rank, .size = kHosts, .name = {}},
                                     options_by(link_, seconds(60))));
    shared_ = reinterpret_cast<int64_t*>(pool_.allocate(kMost * sizeof(int64_t)));
  }

  // In place in memory that the daemon sees, and in ordinary memory. Whether the first of rank 0's values was 0.
  bool sum(uint64_t step, int64_t first) {
    const size_t count = 1 + step * 7'001 % kMost;
    std::vector<int64_t> ordinary(kMost);
    int64_t* const values = step % 2 == 0 ? shared_ : ordinary.data();
    for (size_t i = 0; i < count; ++i) values[i] = value_of(rank_, step, i);
    values[0] = rank_ == 0 ? first : 0;
    comm_->all_reduce<int64_t>({values, count}, {values, count});
    for (size_t i = 1; i < count; ++i) {
      CHECK(values[i] == value_of(0, step, i) + value_of(1, step, i)) << "element " << i << " of step " << step;
    }
    return values[0] == 0;
  }

 private:
  static constexpr size_t kMost = 50'000;
  static int64_t value_of(uint32_t rank, uint64_t step, size_t position) {
    return int64_t{rank} * 1'000'003 + static_cast<int64_t>(step * 7919 + position);
  }

  const uint32_t rank_;
  run::RegionPool pool_;
  const std::shared_ptr<ServiceLink> link_;
  std::optional<Communicator> comm_;
  int64_t* shared_ = nullptr;
};

size_t descriptors_of(pid_t process) {
  const std::filesystem::directory_iterator open("/proc/" + std::to_string(process) + "/fd");
  return static_cast<size_t>(std::distance(begin(open), end(open)));
}

// Rank i is on host i.
class ClientEnds : public ::testing::Test, protected DaemonFolder {
 protected:
  // A program that calls until it is killed. Its errors are its own trouble.
  run::Child start_victim(uint32_t rank, uint32_t round) const {
    return run::Child([&] {
      setenv("BANYAN_HOST_ID", name_of(rank).c_str(), 1);
      try {
        Member member(rank, url_of(rank), meeting("victims" + std::to_string(round)));
        for (uint64_t step = 0;; ++step) member.sum(step, 1);
      } catch (const Error&) {
        return 1;
      }
    });
  }

  // Both are ended: one after the other, or stopped for a while before.
  void end_victims(std::vector<run::Child>& victims, std::mt19937_64& chance) const {
    const auto wait_at_most = [&](int most) {
      std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<int>(0, most)(chance)));
    };
    wait_at_most(150'000);
    const run::Child& first = victims[chance() % victims.size()];
    first.send(chance() % 2 == 0 ? SIGKILL : SIGSTOP);
    wait_at_most(60'000);
    victims.clear();
  }

  std::string keep(uint32_t ends, uint64_t seed) {
    std::mt19937_64 chance(seed);
    std::vector<std::unique_ptr<BanyandProcess>> daemons;
    std::vector<size_t> before;
    for (uint32_t host = 0; host < kHosts; ++host) daemons.push_back(daemon_of(host));
    std::filesystem::create_directory(folder_ + "/up");
    // The steady job has had buffers of all its sizes by then: the daemon has a descriptor for each region.
    while (board_->sums < 300) std::this_thread::sleep_for(milliseconds(2));
    for (const auto& daemon : daemons) before.push_back(descriptors_of(daemon->id()));
    for (uint32_t round = 0; round < ends; ++round) {
      const uint64_t sums = board_->sums;
      std::vector<run::Child> victims;
      for (const uint32_t rank : {0, 1}) victims.push_back(start_victim(rank, round));
      end_victims(victims, chance);
      // The others go on.
      const auto until = std::chrono::steady_clock::now() + seconds(20);
      while (board_->sums < sums + 5) {
        CHECK(std::chrono::steady_clock::now() < until) << "after round " << round << " nothing goes on";
        std::this_thread::sleep_for(milliseconds(1));
      }
    }
    std::string report;
    for (uint32_t host = 0; host < kHosts; ++host) {
      CHECK(!daemons[host]->has_ended()) << "the daemon of host " << host << " has ended";
      const auto until = std::chrono::steady_clock::now() + seconds(20);
      while (descriptors_of(daemons[host]->id()) > before[host] + kBetweenDaemons &&
             std::chrono::steady_clock::now() < until) {
        std::this_thread::sleep_for(milliseconds(5));
      }
      report += std::to_string(before[host]) + " " + std::to_string(descriptors_of(daemons[host]->id())) + " ";
    }
    board_->is_over = true;
    for (uint32_t rank = 0; rank < kHosts; ++rank) {
      while (!std::filesystem::exists(folder_ + "/over" + std::to_string(rank))) {
        std::this_thread::sleep_for(milliseconds(2));
      }
    }
    return report;
  }

  std::string go_on(uint32_t rank) {
    while (!std::filesystem::exists(folder_ + "/up")) std::this_thread::sleep_for(milliseconds(2));
    setenv("BANYAN_HOST_ID", name_of(rank).c_str(), 1);
    {
      Member member(rank, url_of(rank), meeting("steady"));
      for (uint64_t step = 0; !member.sum(step, board_->is_over ? 0 : 1); ++step) board_->sums += rank == 0 ? 1 : 0;
    }
    std::filesystem::create_directory(folder_ + "/over" + std::to_string(rank));
    return "right";
  }

  void go_through(uint32_t ends, seconds at_most) {
    const uint64_t seed = seed_of_test();
    const std::vector<std::string> reports = run::run_processes(
        kHosts + 1, at_most, [&](uint32_t number) { return number < kHosts ? go_on(number) : keep(ends, seed); });
    EXPECT_EQ(reports[0], "right");
    EXPECT_EQ(reports[1], "right");
    std::istringstream descriptors(reports[2]);
    for (uint32_t host = 0; host < kHosts; ++host) {
      size_t before = 0, after = 0;
      descriptors >> before >> after;
      EXPECT_LE(after, before + kBetweenDaemons) << "descriptors of the daemon of host " << host;
    }
    std::cout << ends << " times; " << board_->sums << " sums of the others" << std::endl;
  }

  const testing::SharedAmongProcesses<Board> board_;
};

TEST_F(ClientEnds, CostNobodyElseAnything) { go_through(10, seconds(100)); }

TEST_F(ClientEnds, ManyCostNobodyElseAnything) { go_through(number_from("BANYAN_TEST_ENDS", 200), seconds(800)); }

}  // namespace
}  // namespace banyan::service
