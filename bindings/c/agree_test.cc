// What survivors agree on, and how many must be left of a group for its survivors to go on.
#include <signal.h>
#include <unistd.h>

#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

// Waits until the others have said that they are dead, and dies.
void die_when(std::atomic<int>& done, int count) {
  wait_until(done, count);
  kill(getpid(), SIGKILL);
}

TEST(Survivors, TooFewForTheRuleGetAnErrorAndNoCommunicator) {
  std::atomic<int>& done = shared_counter();
  const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
    if (sum_of_ranks(comm) != "10") return "before";
    ++done;
    if (rank >= 2) die_when(done, 4);
    if (banyan_barrier(comm, nullptr) != BANYAN_PEER_LOST) return "barrier";
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.survivors = "majority";
    banyan_comm_t rest = nullptr;
    const banyan_result_t refused = banyan_comm_shrink(comm, nullptr, 0, &rest, &config);
    const std::string why = banyan_last_error(comm);
    if (refused != BANYAN_PEER_LOST || rest != nullptr) return "majority: " + why;
    if (why.find("the rule 'majority' needs 3 of the last group's 4") == std::string::npos) return why;
    if (why.find("missing: ") == std::string::npos) return why;
    config.survivors = "2";
    require(banyan_comm_shrink(comm, nullptr, 0, &rest, &config));
    const std::string sum = sum_of_ranks(rest);
    banyan_comm_destroy(rest);
    return "sum " + sum;
  };
  EXPECT_THAT(run_ranks(4, body), ElementsAre("sum 3", "sum 3", "killed by 9", "killed by 9"));
}

TEST(Survivors, ARuleThatDoesNotExistIsRefused) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.survivors = "most";
  banyan_comm_t comm = nullptr;
  EXPECT_EQ(banyan_comm_init_env(&comm, &config), BANYAN_INVALID_ARGUMENT);
  EXPECT_THAT(banyan_last_error(nullptr), HasSubstr("config.survivors: 'most' says not who may survive"));
}

TEST(Agree, GivesSurvivorsTheAndOfTheirFlagsAndNamesTheDeadOnce) {
  std::atomic<int>& done = shared_counter();
  const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
    int flag = 0xff & ~(1 << rank);
    if (banyan_comm_agree(comm, &flag) != BANYAN_SUCCESS || flag != 0xf0) return "all: " + std::to_string(flag);
    ++done;
    if (rank == 1) die_when(done, 4);
    if (banyan_barrier(comm, nullptr) != BANYAN_PEER_LOST) return "barrier";
    std::string report;
    for (int i = 0; i < 2; ++i) {
      flag = 0xff & ~(1 << rank);
      const banyan_result_t result = banyan_comm_agree(comm, &flag);
      if (i == 0 && std::string(banyan_last_error(comm)).find("rank 1 is dead: ") == std::string::npos) {
        return banyan_last_error(comm);
      }
      report += std::to_string(result) + ":" + std::to_string(flag) + " ";
    }
    return report;
  };
  const std::string expected = std::to_string(BANYAN_PEER_LOST) + ":242 " + std::to_string(BANYAN_SUCCESS) + ":242 ";
  EXPECT_THAT(run_ranks(4, body), ElementsAre(expected, "killed by 9", expected, expected));
}

TEST(Agree, IsOneValueWhoeverDiesMeanwhile) {
  for (int victim = 0; victim < 4; ++victim) {
    const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
      std::string report;
      for (int round = 0; round < 50; ++round) {
        int flag = (rank + round) % 5 == 0 ? 6 : 7;
        if (rank == victim && round == 20 + victim) kill(getpid(), SIGKILL);
        const banyan_result_t result = banyan_comm_agree(comm, &flag);
        report += std::to_string(result) + ":" + std::to_string(flag) + " ";
      }
      return report;
    };
    const std::vector<std::string> reports = run_ranks(4, body);
    const std::string& expected = reports[static_cast<size_t>(victim == 0 ? 1 : 0)];
    EXPECT_THAT(expected, HasSubstr(std::to_string(BANYAN_PEER_LOST) + ":"));
    for (int rank = 0; rank < 4; ++rank) {
      EXPECT_EQ(reports[static_cast<size_t>(rank)], rank == victim ? "killed by 9" : expected) << "victim " << victim;
    }
  }
}

TEST(Agree, LeavesOutWhoDoesNotComeWithinHalfTheTimeout) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = 1;
  std::atomic<int>& done = shared_counter();
  const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
    if (rank == 2) wait_until(done, 2);
    int flag = 4 + rank;
    const banyan_result_t result = banyan_comm_agree(comm, &flag);
    ++done;
    return std::to_string(result) + ":" + std::to_string(flag);
  };
  const std::string expected = std::to_string(BANYAN_PEER_LOST) + ":4";
  EXPECT_THAT(run_ranks(3, body, &config), ElementsAre(expected, expected, std::to_string(BANYAN_TIMED_OUT) + ":6"));
}

}  // namespace
}  // namespace banyan::c
