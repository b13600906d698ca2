// Processes that cannot join, or not as others do: all ranks learn it at once, by name.
#include <sys/resource.h>
#include <unistd.h>

#include "banyan/run/join/free_port.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using ::testing::MatchesRegex;
using Clock = std::chrono::steady_clock;

// Much less than the time that joining may take.
constexpr double kPatience = 100;
constexpr std::chrono::seconds kAtOnce{30};

// Soft limit and hard limit.
void allow_descriptors(rlim_t most) {
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) perror("setrlimit");
}

// The result of joining and its error, and "late" when that took long.
std::string end_of_joining(const std::string& url, int size, int rank) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.join_timeout = kPatience;
  banyan_comm_t comm = nullptr;
  const Clock::time_point began = Clock::now();
  const banyan_result_t result = banyan_comm_init_url(&comm, url.c_str(), size, rank, &config);
  const std::string late = Clock::now() - began > kAtOnce ? "late: " : "";
  if (result == BANYAN_SUCCESS) banyan_comm_destroy(comm);
  return late + std::to_string(result) + ": " + (result == BANYAN_SUCCESS ? "" : banyan_last_error(nullptr));
}

class TroubleWhileJoining : public ::testing::TestWithParam<const char*> {
 protected:
  std::string url() const {
    return std::string(GetParam()) == "file" ? place_.url() : "tcp://127.0.0.1:" + std::to_string(port_);
  }

 private:
  const MeetingPlace place_;
  const uint16_t port_ = run::free_port();
};

INSTANTIATE_TEST_SUITE_P(By, TroubleWhileJoining, ::testing::Values("file", "tcp"),
                         [](const auto& name) { return std::string(name.param); });

// The job of 1,100 ranks under `ulimit -n 1024`, small.
TEST_P(TroubleWhileJoining, ForWantOfDescriptorsAtRankZeroIsToldToAll) {
  constexpr int kSize = 32;
  const auto reports = run_processes(kSize, [&](int rank) -> std::string {
    if (rank == 0) allow_descriptors(40);
    return end_of_joining(url(), kSize, rank);
  });
  const std::string told = std::to_string(BANYAN_SYSTEM_ERROR) + ": rank 0 ";
  EXPECT_THAT(reports,
              Each(AllOf(StartsWith(told), HasSubstr("cannot join: it may open "),
                         HasSubstr("descriptors more of 40, and takes 88 as rank 0 of 32"), HasSubstr("ulimit -Hn"))));
}

TEST_P(TroubleWhileJoining, ForWantOfDescriptorsElsewhereIsToldToAll) {
  const auto reports = run_processes(3, [&](int rank) -> std::string {
    if (rank == 2) allow_descriptors(24);
    return end_of_joining(url(), 3, rank);
  });
  const std::string told = std::to_string(BANYAN_SYSTEM_ERROR) + ": rank 2 ";
  EXPECT_THAT(reports, Each(AllOf(StartsWith(told), HasSubstr("descriptors more of 24, and takes 24 as rank 2 of 3"))));
}

TEST_P(TroubleWhileJoining, ASoftLimitIsRaised) {
  constexpr int kSize = 16;
  const auto reports = run_processes(kSize, [&](int rank) -> std::string {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = 24;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return "no limit";
    return end_of_joining(url(), kSize, rank);
  });
  EXPECT_THAT(reports, Each(std::to_string(BANYAN_SUCCESS) + ": "));
}

TEST_P(TroubleWhileJoining, WithAnInterfaceThatThereIsNotIsToldToAll) {
  const auto reports = run_processes(3, [&](int rank) -> std::string {
    if (rank == 1) setenv("BANYAN_ADDRESS", "nosuch0", 1);
    return end_of_joining(url(), 3, rank);
  });
  EXPECT_THAT(reports, Each(AllOf(HasSubstr(": rank 1 "), HasSubstr("cannot join: BANYAN_ADDRESS=nosuch0: "),
                                  HasSubstr("(this machine has lo"))));
}

// Calls, too, end at once where descriptors are short: at the rank that calls, and at that which is called.
TEST(DescriptorsOfCalls, EndThemWhereTheyAreShort) {
  for (int is_short = 0; is_short < 2; ++is_short) {
    const MeetingPlace place;
    const auto reports = run_processes(2, [&](int rank) -> std::string {
      setenv("BANYAN_TRANSPORT", "tcp", 1);
      banyan_config_t config = BANYAN_CONFIG_INIT;
      config.timeout = kPatience;
      banyan_comm_t comm = nullptr;
      require(banyan_comm_init_url(&comm, place.url().c_str(), 2, rank, &config));
      if (rank == is_short) {
        const int next = dup(0);  // the lowest that is free, and so the first beyond the limit
        close(next);
        allow_descriptors(static_cast<rlim_t>(next));
      }
      const Clock::time_point began = Clock::now();
      const std::string sum = sum_of_ranks(comm);
      banyan_result_t result = BANYAN_SUCCESS;
      banyan_comm_get_async_error(comm, &result);
      banyan_comm_abort(comm);
      return (Clock::now() - began > kAtOnce ? "late: " : "") + std::to_string(result) + ": " + sum;
    });
    EXPECT_THAT(reports, Each(AllOf(StartsWith(std::to_string(BANYAN_SYSTEM_ERROR) + ": "),
                                    HasSubstr("Too many open files (this process may have "), HasSubstr("ulimit -n"))))
        << "rank " << is_short;
  }
}

}  // namespace
}  // namespace banyan::c
