// Ranks of one host in user namespaces of their own. Where those are refused, the tests are skipped, saying why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/file.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using Variables = std::vector<std::pair<std::string, std::string>>;

// Much less than the time that joining may take.
constexpr double kJoinTimeout = 100;
constexpr std::chrono::seconds kSoon{30};

// What a rank gets for its sum of many elements, or its error; "late" when that took long.
std::string end_of_sum(const std::string& url, int size, int rank) {
  constexpr size_t kCount = 100'000;
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.join_timeout = config.timeout = kJoinTimeout;
  banyan_comm_t comm = nullptr;
  const Clock::time_point began = Clock::now();
  banyan_result_t result = banyan_comm_init_url(&comm, url.c_str(), size, rank, &config);
  std::string end = result == BANYAN_SUCCESS ? "" : "joining: " + std::string(banyan_last_error(nullptr));
  if (result == BANYAN_SUCCESS) {
    std::vector<int32_t> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int32_t>(i % 1000) * (rank + 1);
    result = banyan_all_reduce(values.data(), values.data(), kCount, BANYAN_INT32, BANYAN_SUM, comm, nullptr);
    end = result == BANYAN_SUCCESS ? "right" : "calling: " + std::string(banyan_last_error(comm));
    for (size_t i = 0; i < kCount && result == BANYAN_SUCCESS; ++i) {
      if (values[i] != static_cast<int32_t>(i % 1000) * size * (size + 1) / 2) end = "wrong at " + std::to_string(i);
    }
    banyan_comm_destroy(comm);
  }
  return (Clock::now() - began > kSoon ? "late: " : "") + end;
}

// ---- User namespaces ----

// As rootless containers are: this user is root in there, and nobody elsewhere. Why not, if so.
std::string enter_user_namespace() {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER) != 0) return std::string("user namespaces are refused here: ") + std::strerror(errno);
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " + user + " 1";
  std::ofstream("/proc/self/gid_map") << "0 " + group + " 1";
  return {};
}

class UserNamespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = run_processes(1, [](int) { return enter_user_namespace(); }).front();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  // Ranks of which some are in namespaces of their own.
  std::vector<std::string> run(const std::vector<bool>& is_apart, const Variables& variables = {}) const {
    const int size = static_cast<int>(is_apart.size());
    return run_processes(size, [&](int rank) -> std::string {
      setenv("BANYAN_SECRET", "00112233445566778899aabbccddeeff", 1);
      setenv("BANYAN_LOG_FILE", log(rank).c_str(), 1);
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      if (is_apart[static_cast<size_t>(rank)]) {
        if (const std::string reason = enter_user_namespace(); !reason.empty()) return reason;
      }
      return end_of_sum(place_.url(), size, rank);
    });
  }
  std::string log(int rank) const { return place_.folder() + "/log" + std::to_string(rank); }

 private:
  const MeetingPlace place_;
};

TEST_F(UserNamespaces, OfTheirOwnDoNotKeepRanksApart) {
  EXPECT_THAT(run({true, true, true, true}), Each("right"));
  EXPECT_THAT(read_file(log(0)), HasSubstr("warning: ranks 0-3 are on one host and may not open each other's memory, "
                                           "since ranks 0 and 1 have different user namespaces: where it is closed to "
                                           "them, they use TCP"));
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(read_file(log(rank)), "") << "told once";
}

TEST_F(UserNamespaces, OfOneRankDoesNotKeepItApart) {
  EXPECT_THAT(run({false, false, true}), Each("right"));
  EXPECT_THAT(read_file(log(0)), HasSubstr("since ranks 0 and 2 have different user namespaces"));
}

TEST_F(UserNamespaces, AreNamedWhereSharedMemoryIsAskedFor) {
  EXPECT_THAT(run({true, true}, {{"BANYAN_TRANSPORT", "shm"}}),
              Each(AllOf(HasSubstr("joining: "), HasSubstr("may not open each other's memory"),
                         HasSubstr("use transport tcp or auto"))));
}

}  // namespace
}  // namespace banyan::c
