// What fails leaves nothing behind: neither descriptors, memory, regions and threads, nor files; however often. And
// limits of the system are errors, not signals. BANYAN_TEST_FAILURES: how often.
#include <sys/resource.h>
#include <unistd.h>

#include "banyan/testing/test.h"
#include "bindings/c/test_footprint.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

namespace fs = std::filesystem;

constexpr unsigned kAnHour = 3600;  // seconds; by hand these runs may last

std::string transport() {
  const char* const name = std::getenv("BANYAN_TRANSPORT");
  return name != nullptr ? name : "shm";
}

// UCX keeps pools of memory that it has grown once.
Slack slack() {
  Slack slack;
  if (transport() == "ucx") slack = {.resident = 16 << 20, .mappings = 64, .descriptors = 8, .threads = 0};
  return slack;
}

std::set<std::string> shared_files() {
  std::set<std::string> names;
  std::error_code none;
  for (fs::directory_iterator file("/dev/shm", none), end; !none && file != end; file.increment(none)) {
    const std::string name = file->path().filename().string();
    if (name.starts_with("banyan")) names.insert(name);  // those of other programs come and go
  }
  return names;
}

banyan_result_t sum_ones(banyan_comm_t comm, int* sum) {
  const int one = 1;
  return banyan_all_reduce(&one, sum, 1, BANYAN_INT32, BANYAN_SUM, comm, nullptr);
}

// The same again and again: what was there after a tenth of the rounds must not have grown at the end.
template <typename Round>
std::string repeat(Round round) {
  alarm(kAnHour);
  const uint64_t rounds = setting("BANYAN_TEST_FAILURES", 60);
  Footprint settled;
  for (uint64_t i = 0; i < rounds; ++i) {
    if (std::string wrong = round(i); !wrong.empty()) return "round " + std::to_string(i) + ": " + wrong;
    if (i == rounds / 10) settled = Footprint::now();
  }
  return growth(settled, Footprint::now(), slack());
}

class FailedCalls : public ::testing::Test {
 protected:
  const std::set<std::string> before_ = shared_files();
  void TearDown() override { EXPECT_EQ(shared_files(), before_); }
};

// One rank wants shared memory, the other connections: so they never meet, and the first waits in vain.
TEST_F(FailedCalls, SplitsLeaveNothingBehind) {
  const auto body = [](banyan_comm_t comm, int rank) {
    return repeat([&](uint64_t round) -> std::string {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.join_timeout = 0.002;
      const bool waits = (static_cast<uint64_t>(rank) + round) % 2 == 0;
      const std::string other = transport() == "shm" ? "tcp" : transport();
      config.transport = waits ? "shm" : other.c_str();
      banyan_comm_t part = nullptr;
      const banyan_result_t result = banyan_comm_split(comm, 0, 0, &part, &config);
      if (waits && result != BANYAN_TIMED_OUT) return "split returned " + std::to_string(result);
      if (!waits && result != BANYAN_SUCCESS) return std::string("split: ") + banyan_last_error(nullptr);
      if (part != nullptr) banyan_comm_destroy(part);
      int sum = 0;  // and the ranks go on at the same step
      return sum_ones(comm, &sum) == BANYAN_SUCCESS && sum == 2 ? "" : banyan_last_error(comm);
    });
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

// Each is left out by the other in turn.
TEST_F(FailedCalls, ShrinksLeaveNothingBehind) {
  const auto body = [](banyan_comm_t comm, int rank) {
    return repeat([&](uint64_t round) -> std::string {
      banyan_comm_t part = nullptr, smaller = nullptr;
      require(banyan_comm_split(comm, 0, 0, &part, nullptr));
      const int left_out = static_cast<int>(round % 2);
      const banyan_result_t result = banyan_comm_shrink(part, &left_out, 1, &smaller, nullptr);
      const banyan_result_t due = rank == left_out ? BANYAN_PEER_LOST : BANYAN_SUCCESS;
      if (result != due) return "shrink returned " + std::to_string(result) + ": " + banyan_last_error(nullptr);
      if (smaller != nullptr) banyan_comm_destroy(smaller);
      banyan_comm_destroy(part);
      return "";
    });
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

TEST_F(FailedCalls, JoinsLeaveNothingBehind) {
  const MeetingPlace place;
  const auto body = [&](int) {
    return repeat([&](uint64_t) -> std::string {
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.join_timeout = 0.002;
      banyan_comm_t comm = nullptr;
      const banyan_result_t result = banyan_comm_init_url(&comm, place.url().c_str(), 2, 0, &config);
      return result == BANYAN_TIMED_OUT ? "" : "join returned " + std::to_string(result);
    });
  };
  EXPECT_THAT(run_processes(1, body), Each(""));
}

// ---- Limits of the system ----

// A small limit on files holds for memory that ranks share, which is files too.
TEST(Limits, OfTheSizeOfFilesAreErrors) {
  const auto body = [](int) -> std::string {
    const rlimit limit{.rlim_cur = 64 << 10, .rlim_max = 64 << 10};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return "setrlimit";
    void* memory = nullptr;
    const banyan_result_t result = banyan_mem_alloc(&memory, 1 << 20);
    return result == BANYAN_SYSTEM_ERROR ? banyan_last_error(nullptr) : "returned " + std::to_string(result);
  };
  EXPECT_THAT(run_processes(1, body), Each(HasSubstr("ulimit -f")));
}

// root is free of the limit, so that the process becomes another user's first.
TEST(Limits, OfThreadsAreErrors) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become a user with no other processes";
  const MeetingPlace place;
  fs::permissions(place.folder(), fs::perms::all);
  const auto body = [&](int) -> std::string {
    const rlimit limit{.rlim_cur = 1, .rlim_max = 1};
    constexpr uid_t kNobodyElse = 54'321;
    if (setrlimit(RLIMIT_NPROC, &limit) != 0 || setuid(kNobodyElse) != 0) return "cannot become another user";
    banyan_comm_t comm = nullptr;
    const banyan_result_t result = banyan_comm_init_url(&comm, place.url().c_str(), 1, 0, nullptr);
    return result == BANYAN_SYSTEM_ERROR ? banyan_last_error(nullptr) : "returned " + std::to_string(result);
  };
  EXPECT_THAT(run_processes(1, body), Each(HasSubstr("cannot start the thread")));
}

// ---- Parts, and children ----

TEST(Timeouts, OfPartsAreThoseOfTheWhole) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = 1.5;
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    banyan_comm_t part = nullptr, smaller = nullptr;
    int sum = 0;
    require(banyan_comm_split(comm, 0, 0, &part, nullptr));
    std::string said;
    if (rank == 0) said += sum_ones(part, &sum) == BANYAN_TIMED_OUT ? "late " : banyan_last_error(part);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2200));
    require(banyan_comm_shrink(part, nullptr, 0, &smaller, nullptr));
    if (rank == 0) said += sum_ones(smaller, &sum) == BANYAN_TIMED_OUT ? "late" : banyan_last_error(smaller);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2200));
    banyan_comm_destroy(smaller);
    banyan_comm_destroy(part);
    return rank == 0 ? said : "late late";
  };
  EXPECT_THAT(run_ranks(2, body, &config), Each("late late"));
}

}  // namespace
}  // namespace banyan::c
