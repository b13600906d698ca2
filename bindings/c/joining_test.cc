// Joining in the background, and giving it up.

#include "banyan/run/join/free_port.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using Clock = std::chrono::steady_clock;

// What a busy machine may add to the second that giving up takes.
constexpr seconds kLate{4};

banyan_config_t in_background() {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.blocking = 0;
  config.join_timeout = 60;
  return config;
}

// How joining has ended, and "late" when that took longer than giving up may.
std::string end_of_joining(banyan_comm_t comm, Clock::time_point told) {
  banyan_result_t result = BANYAN_IN_PROGRESS;
  while (result == BANYAN_IN_PROGRESS) {
    std::this_thread::sleep_for(milliseconds(1));
    if (banyan_comm_get_async_error(comm, &result) != BANYAN_SUCCESS) return "it cannot be asked";
  }
  const std::string late = Clock::now() - told > seconds(1) + kLate ? "late: " : "";
  return late + std::to_string(result) + ": " + banyan_last_error(comm);
}

class JoiningInBackground : public ::testing::TestWithParam<const char*> {
 protected:
  std::string url() const {
    return std::string(GetParam()) == "file" ? place_.url() : "tcp://127.0.0.1:" + std::to_string(port_);
  }

 private:
  const MeetingPlace place_;
  const uint16_t port_ = run::free_port();
};

INSTANTIATE_TEST_SUITE_P(By, JoiningInBackground, ::testing::Values("file", "tcp"),
                         [](const auto& name) { return std::string(name.param); });

TEST_P(JoiningInBackground, IsOverWhenAllHaveCome) {
  const auto reports = run_processes(3, [&](int rank) -> std::string {
    const banyan_config_t config = in_background();
    banyan_comm_t comm = nullptr;
    if (banyan_comm_init_url(&comm, url().c_str(), 3, rank, &config) != BANYAN_IN_PROGRESS) return "no background";
    if (rank == 0) std::this_thread::sleep_for(milliseconds(100));
    if (end_of_joining(comm, Clock::now()) != std::to_string(BANYAN_SUCCESS) + ": ") return banyan_last_error(comm);
    const std::string sum = sum_of_ranks(comm);
    if (banyan_comm_destroy(comm) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
    return sum;
  });
  EXPECT_THAT(reports, Each("6"));
}

TEST_P(JoiningInBackground, LetsNobodyCallBeforeItIsOver) {
  const banyan_config_t config = in_background();
  banyan_comm_t comm = nullptr;
  ASSERT_EQ(banyan_comm_init_url(&comm, url().c_str(), 2, 0, &config), BANYAN_IN_PROGRESS);
  int size = 0;
  EXPECT_EQ(banyan_comm_count(comm, &size), BANYAN_INVALID_USAGE);
  EXPECT_THAT(banyan_last_error(comm), HasSubstr("has not come together yet; see banyan_comm_get_async_error"));
  float value = 1;
  banyan_request_t request = nullptr;
  EXPECT_EQ(banyan_all_reduce(&value, &value, 1, BANYAN_FLOAT32, BANYAN_SUM, comm, &request), BANYAN_INVALID_USAGE);
  const size_t counts[2] = {1, 1};
  EXPECT_EQ(banyan_all_gather_v(&value, &value, counts, nullptr, BANYAN_FLOAT32, comm, nullptr), BANYAN_INVALID_USAGE);
  const Clock::time_point begin = Clock::now();
  EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
  EXPECT_LT(Clock::now() - begin, seconds(3) + kLate);
}

// Three of four have come, and one of them is told to give up.
TEST_P(JoiningInBackground, IsGivenUpByAllWhenOneAborts) {
  for (int aborts = 0; aborts < 3; ++aborts) {
    const auto reports = run_processes(3, [&](int rank) -> std::string {
      const banyan_config_t config = in_background();
      banyan_comm_t comm = nullptr;
      const std::string place = url() + (std::string(GetParam()) == "file" ? std::to_string(aborts) : "");
      if (banyan_comm_init_url(&comm, place.c_str(), 4, rank, &config) != BANYAN_IN_PROGRESS) return "no background";
      std::this_thread::sleep_for(milliseconds(700));
      const Clock::time_point told = Clock::now();
      if (rank == aborts && banyan_comm_abort(comm) != BANYAN_SUCCESS) return banyan_last_error(comm);
      const std::string end = end_of_joining(comm, told);
      if (banyan_comm_destroy(comm) != BANYAN_SUCCESS) return banyan_last_error(nullptr);
      return end;
    });
    EXPECT_THAT(reports, Each(AllOf(StartsWith(std::to_string(BANYAN_ABORTED) + ": "),
                                    HasSubstr("rank " + std::to_string(aborts) + " "), HasSubstr("gave up joining"))))
        << "rank " << aborts;
  }
}

// Nobody listens where the others are to be met.
TEST_P(JoiningInBackground, IsGivenUpWhileThereIsNoPlaceYet) {
  const banyan_config_t config = in_background();
  banyan_comm_t comm = nullptr;
  ASSERT_EQ(banyan_comm_init_url(&comm, url().c_str(), 2, 1, &config), BANYAN_IN_PROGRESS);
  std::this_thread::sleep_for(milliseconds(200));
  ASSERT_EQ(banyan_comm_abort(comm), BANYAN_SUCCESS);
  EXPECT_THAT(end_of_joining(comm, Clock::now()),
              AllOf(StartsWith(std::to_string(BANYAN_ABORTED) + ": "), HasSubstr("rank 1 gave up joining")));
  EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
}

TEST(JoiningThatFails, SaysWhy) {
  banyan_config_t config = in_background();
  config.join_timeout = 0.3;
  const MeetingPlace place;
  banyan_comm_t comm = nullptr;
  ASSERT_EQ(banyan_comm_init_url(&comm, place.url().c_str(), 2, 0, &config), BANYAN_IN_PROGRESS);
  EXPECT_THAT(end_of_joining(comm, Clock::now()),
              AllOf(StartsWith(std::to_string(BANYAN_TIMED_OUT) + ": "), HasSubstr("rank 1 has not come")));
  int size = 0;
  EXPECT_EQ(banyan_comm_count(comm, &size), BANYAN_TIMED_OUT);
  EXPECT_EQ(banyan_comm_destroy(comm), BANYAN_SUCCESS);
}

}  // namespace
}  // namespace banyan::c
