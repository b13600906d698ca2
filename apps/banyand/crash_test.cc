// banyand is killed at moments drawn by chance, while ranks of two hosts call through it. Each host is a name here
// (BANYAN_HOST_ID); each daemon and each rank is a process.
//
// BANYAN_TEST_KILLS: how often, in the long test. BANYAN_TEST_SEED: the moments.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "apps/banyand/test_banyand.h"
#include "banyan/base/check.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/client/service_executors.h"

namespace banyan::service {
namespace {

using run::Call;
using run::Communicator;
using run::OperationKind;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr uint32_t kHosts = 2, kRanks = 3;
constexpr size_t kMostKills = 4096;

int64_t now() { return nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// What the processes of a run see of each other, in shared memory.
struct Board {
  std::atomic<uint32_t> kills[kHosts];
  std::atomic<int64_t> killed_at[kHosts][kMostKills];
  std::atomic<bool> is_over;

  void note_kill(uint32_t host) {
    const uint32_t number = kills[host].load();
    killed_at[host][number].store(now());
    kills[host].store(number + 1);
  }
  // The first kill of any daemon after a moment.
  std::optional<int64_t> first_kill(int64_t after) const {
    std::optional<int64_t> first;
    for (uint32_t host = 0; host < kHosts; ++host) {
      for (uint32_t number = 0; number < kills[host].load(); ++number) {
        const int64_t at = killed_at[host][number].load();
        if (at >= after) first = std::min(first.value_or(at), at);
      }
    }
    return first;
  }
};

int64_t value_of(uint32_t rank, uint64_t step, size_t position) {
  return int64_t{rank} * 1'000'003 + static_cast<int64_t>(step * 7919 + position);
}

// One rank: calls, and where its daemon or another one has gone, looks whether all is as it should be, shrinks and goes
// on. Its report is empty, or what was wrong; `late_` is how long after a kill its errors came.
class CallingRank {
 public:
  CallingRank(const Board& board, uint32_t rank, std::string url, std::string meeting)
      : board_(board),
        rank_(rank),
        url_(std::move(url)),
        link_(std::make_shared<ServiceLink>(url_, pool_, run::Deadline::after(seconds(30)))),
        meeting_(std::move(meeting)) {}

  // "<errors> <calls> <milliseconds of each error...>", which are negative where another rank has told of it.
  std::string run() {
    join();
    while (go_on()) continue;
    comm_.reset();
    std::string report = std::to_string(errors_) + " " + std::to_string(calls_);
    for (const double each : late_) report += " " + std::to_string(each);
    return report;
  }

 private:
  static constexpr size_t kMostElements = 60'000;

  void join() {
    Communicator::Options options{.timeout = seconds(40), .join_timeout = seconds(40)};
    options.extras[ServiceExecutors::kExtra] = ServiceExecutors::extra_of(*link_);
    options.executors = [link = link_](std::shared_ptr<run::JoinedProcesses> job, const Communicator::Options& own) {
      return std::make_unique<ServiceExecutors>(link, std::move(job), own);
    };
    comm_.emplace(
        Communicator::join(pool_, {.url = meeting_, .rank = rank_, .size = kRanks, .name = {}}, std::move(options)));
    began_ = now();
    shared_ = reinterpret_cast<int64_t*>(pool_.allocate(2 * kMostElements * sizeof(int64_t)));
  }

  // False at the end, which one rank tells all.
  bool go_on() {
    try {
      const std::vector<int64_t> own = {static_cast<int64_t>(step_), board_.is_over ? 0 : 1};
      std::vector<int64_t> all(2);
      CHECK(comm_->size() == kRanks) << "somebody is missing";
      comm_->all_reduce<int64_t>(own, all, element::ReduceOp::min);
      step_ = static_cast<uint64_t>(all[0]);
      if (all[1] == 0) return false;
      call();
      ++step_;
      ++calls_;
    } catch (const Error& error) {
      recover(error);
    }
    return true;
  }

  // Sums in ordinary memory, in memory that the daemon sees, and in place there.
  void call() {
    const size_t count = 1 + (step_ * 7'001) % kMostElements;
    std::vector<int64_t> ordinary(2 * kMostElements);
    int64_t* const send = step_ % 3 == 0 ? ordinary.data() : shared_;
    int64_t* const recv = step_ % 3 == 2 ? send : send + kMostElements;
    for (size_t i = 0; i < count; ++i) send[i] = value_of(rank_, step_, i);
    try {
      comm_->all_reduce<int64_t>({send, count}, {recv, count});
    } catch (const Error&) {
      for (size_t i = 0; i < count; ++i) {
        CHECK(send[i] == value_of(rank_, step_, i)) << "input " << i << " of step " << step_ << " is " << send[i];
      }
      throw;
    }
    for (size_t i = 0; i < count; ++i) {
      int64_t sum = 0;
      for (uint32_t rank = 0; rank < kRanks; ++rank) sum += value_of(rank, step_, i);
      CHECK(recv[i] == sum) << "element " << i << " of step " << step_ << " is " << recv[i];
    }
  }

  void recover(const Error& error) {
    ++errors_;
    const std::string text = error.what();
    const bool is_own = text.find("the service has gone (" + url_ + ")") != std::string::npos;
    const bool is_other = text.find("the service of rank ") != std::string::npos ||
                          text.find("shrinks the communicator") != std::string::npos;
    CHECK((error.code() == ErrorCode::peer_lost || error.code() == ErrorCode::aborted) && (is_own || is_other)) << text;
    // Where a daemon was killed before the communicator began, its end was told late, or found by a call.
    const std::optional<int64_t> killed = board_.first_kill(began_);
    if (killed) late_.push_back((is_own ? 1 : -1) * static_cast<double>(now() - *killed) / 1e6);
    Communicator::Options options = comm_->options();
    options.joins_by.reset();
    Communicator rest = comm_->shrink({}, seconds(15), std::move(options));
    comm_.emplace(std::move(rest));
    began_ = now();
  }

  const Board& board_;
  const uint32_t rank_;
  const std::string url_;
  run::RegionPool pool_;
  const std::shared_ptr<ServiceLink> link_;
  const std::string meeting_;
  std::optional<Communicator> comm_;
  int64_t* shared_ = nullptr;
  int64_t began_ = 0;
  uint64_t step_ = 0, errors_ = 0, calls_ = 0;
  std::vector<double> late_;
};

class Crashes : public ::testing::Test {
 protected:
  Crashes() : folder_(std::filesystem::temp_directory_path() / "banyan-test-XXXXXX") {
    CHECK(mkdtemp(folder_.data()) != nullptr) << folder_;
    setenv("BANYAN_RECORDER_DIR", folder_.c_str(), 1);
    void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    board_ = new (memory) Board();
  }
  ~Crashes() override {
    munmap(board_, sizeof(Board));
    std::filesystem::remove_all(folder_);
  }

  std::string socket_of(uint32_t host) const { return folder_ + "/daemon" + std::to_string(host); }

  std::string keep_daemons(uint32_t kills, uint64_t seed) {
    std::mt19937_64 chance(seed);
    const auto wait_at_most = [&](int most) {
      std::this_thread::sleep_for(std::chrono::microseconds(std::uniform_int_distribution<int>(0, most)(chance)));
    };
    std::vector<std::unique_ptr<BanyandProcess>> daemons;
    for (uint32_t host = 0; host < kHosts; ++host) {
      daemons.push_back(std::make_unique<BanyandProcess>(BanyandProcess::Options{
          .socket = socket_of(host), .world = "file://" + folder_ + "/world", .host = "host" + std::to_string(host)}));
    }
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
    const char* const given = getenv("BANYAN_TEST_SEED");
    const uint64_t seed = given != nullptr ? std::stoull(given) : std::random_device()();
    std::cout << "BANYAN_TEST_SEED=" << seed << std::endl;
    const std::vector<std::string> reports = run::run_processes(1 + kRanks, at_most, [&](uint32_t number) {
      if (number == kRanks) return keep_daemons(kills, seed);
      while (!std::filesystem::exists(folder_ + "/up")) std::this_thread::sleep_for(milliseconds(2));
      const uint32_t host = number % kHosts;
      setenv("BANYAN_HOST_ID", ("host" + std::to_string(host)).c_str(), 1);
      std::string report =
          CallingRank(*board_, number, "unix:" + socket_of(host), "file://" + folder_ + "/meeting").run();
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
    EXPECT_LT(late[late.size() / 2], 100);
    EXPECT_LT(late.back(), 5000);
  }

  std::string folder_;
  Board* board_ = nullptr;
};

TEST_F(Crashes, CostProgramsTheCallsUnderWayAndNothingElse) { go_through(6, seconds(100)); }

TEST_F(Crashes, ManyCostProgramsTheCallsUnderWayAndNothingElse) {
  const char* const kills = getenv("BANYAN_TEST_KILLS");
  go_through(kills != nullptr ? static_cast<uint32_t>(std::stoul(kills)) : 200, seconds(800));
}

}  // namespace
}  // namespace banyan::service
