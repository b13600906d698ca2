// How long calls may take, seen from outside: real processes that wait in vain, are stopped and go on, or are killed
// while they join. The parent measures.
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "banyan/base/file.h"
#include "banyan/run/join/free_port.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"
#include "banyan/testing/withheld_time.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using Clock = std::chrono::steady_clock;

// What a busy machine may add to any time, besides what it withholds altogether.
constexpr milliseconds kBusy{5000};

// A forked process, to which its parent sends signals, and which says one thing at its end.
class Process {
 public:
  explicit Process(const std::function<std::string()>& body)
      : child_([&] {
          constexpr unsigned kLongest = 600;
          alarm(kLongest);
          return body();
        }) {}

  void signal(int number) { child_.process().send(number); }
  // What it says; "still runs", when it has not ended within this time.
  std::string await(milliseconds at_most) {
    const Clock::time_point limit = Clock::now() + at_most;
    std::atomic<int> withheld = 0;
    const WithheldTime counts(withheld);
    while (child_.fd() >= 0) {
      pollfd polled{.fd = child_.fd(), .events = POLLIN, .revents = 0};
      const auto left = std::chrono::ceil<milliseconds>(limit + milliseconds(withheld) - Clock::now()).count();
      if (left <= 0) return "still runs";
      if (poll(&polled, 1, static_cast<int>(left)) > 0) child_.read_some();
    }
    return child_.text();
  }

 private:
  run::ReportingChild child_;
};

using Processes = std::vector<std::unique_ptr<Process>>;

banyan_config_t config_with(double timeout, double join_timeout) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = timeout;
  config.join_timeout = join_timeout;
  return config;
}

std::string outcome(const char* what, banyan_result_t result) {
  return std::string(what) + ": " + banyan_result_text(result) + "; ";
}

// Ranks that join at `url`, then do this.
std::unique_ptr<Process> start_rank(const std::string& url, int size, int rank, const banyan_config_t& config,
                                    const std::function<std::string(banyan_comm_t)>& body) {
  return std::make_unique<Process>([=]() -> std::string {
    banyan_comm_t comm = nullptr;
    const banyan_result_t result = banyan_comm_init_url(&comm, url.c_str(), size, rank, &config);
    if (result != BANYAN_SUCCESS) return outcome("join", result) + banyan_last_error(nullptr);
    return body(comm);
  });
}

// ---- Every kind of waiting ----

using Wait = banyan_result_t (*)(banyan_comm_t comm, banyan_request_t* request);

banyan_result_t destroy(banyan_comm_t comm, banyan_request_t*) { return banyan_comm_destroy(comm); }
banyan_result_t finalize(banyan_comm_t comm, banyan_request_t*) { return banyan_comm_finalize(comm); }
banyan_result_t wait(banyan_comm_t, banyan_request_t* request) { return banyan_wait(request); }
banyan_result_t wait_all(banyan_comm_t, banyan_request_t* request) { return banyan_wait_all(request, 1); }
banyan_result_t wait_any(banyan_comm_t, banyan_request_t* request) {
  int index = -1;
  return banyan_wait_any(request, 1, &index);
}
banyan_result_t test(banyan_comm_t, banyan_request_t* request) {
  banyan_result_t result;
  while ((result = banyan_test(request)) == BANYAN_IN_PROGRESS) std::this_thread::sleep_for(milliseconds(1));
  return result;
}
banyan_result_t wait_shortly(banyan_comm_t, banyan_request_t* request) {
  banyan_result_t result;
  while ((result = banyan_wait_for(request, 0.02)) == BANYAN_IN_PROGRESS) continue;
  return result;
}

struct NamedWait {
  const char* name;
  Wait wait;
};
class EveryWait : public ::testing::TestWithParam<NamedWait> {};
INSTANTIATE_TEST_SUITE_P(By, EveryWait,
                         ::testing::Values(NamedWait{"Wait", wait}, NamedWait{"WaitAll", wait_all},
                                           NamedWait{"WaitAny", wait_any}, NamedWait{"Test", test},
                                           NamedWait{"WaitForAShortTime", wait_shortly},
                                           NamedWait{"Finalize", finalize}, NamedWait{"Destroy", destroy}),
                         [](const auto& test) { return test.param.name; });

// Two ranks, each with a receive for which nobody sends.
TEST_P(EveryWait, EndsAtTheTimeoutForAMessageThatNobodySends) {
  constexpr milliseconds kTimeout{1000};
  const MeetingPlace place;
  const banyan_config_t config = config_with(1, 60);
  Processes ranks;
  const Clock::time_point begin = Clock::now();
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(start_rank(place.url(), 2, rank, config, [&, rank](banyan_comm_t comm) {
      int value = 0;
      banyan_request_t request = nullptr;
      banyan_recv(&value, 1, BANYAN_INT32, 1 - rank, comm, &request);
      return outcome("waiting", GetParam().wait(comm, &request));
    }));
  }
  std::string all;
  for (const auto& rank : ranks) all += rank->await(kTimeout + seconds(2) + kBusy) + "\n";
  EXPECT_GE(Clock::now() - begin, kTimeout);
  EXPECT_THAT(all, AllOf(HasSubstr("waiting: timed out"), Not(HasSubstr("success")), Not(HasSubstr("still runs"))));
}

// An operation ends with an error while nobody waits for it. Whoever ends the communicator is told, and only once.
TEST(EndOfACommunicator, TellsTheErrorOfWhatNobodyWaitedFor) {
  const MeetingPlace place;
  const banyan_config_t config = config_with(20, 60);
  const auto body = [](bool waits) {
    return [waits](banyan_comm_t comm) {
      int value = 0;
      banyan_request_t request = nullptr;
      banyan_recv(&value, 1, BANYAN_INT32, 2, comm, &request);
      const std::string report = waits ? outcome("wait", banyan_wait(&request)) : "";
      std::this_thread::sleep_for(milliseconds(1500));
      return report + outcome("destroy", banyan_comm_destroy(comm));
    };
  };
  const auto asks = start_rank(place.url(), 3, 0, config, body(true));
  const auto ends = start_rank(place.url(), 3, 1, config, body(false));
  const auto dies = start_rank(place.url(), 3, 2, config, [](banyan_comm_t) {
    std::this_thread::sleep_for(milliseconds(200));
    return std::string();
  });
  dies->await(seconds(60));
  EXPECT_EQ(asks->await(seconds(60)), "wait: a rank was lost; destroy: success; ");
  EXPECT_EQ(ends->await(seconds(60)), "destroy: a rank was lost; ");
}

// ---- Time in which the process did not run ----

// Counts one when it has begun, so that whoever stops ranks does not stop them while they join.
std::string sum_for_ever(banyan_comm_t comm, int rank, std::atomic<int>& begun) {
  for (int64_t round = 0;; ++round) {
    int64_t values[3] = {rank + 1, round, rank * round}, sums[3] = {};
    const banyan_result_t result = banyan_all_reduce(values, sums, 3, BANYAN_INT64, BANYAN_SUM, comm, nullptr);
    if (result != BANYAN_SUCCESS) return outcome("sum", result) + banyan_last_error(comm);
    if (sums[0] != 10 || sums[1] != 4 * round || sums[2] != 6 * round) return "a wrong sum";
    if (round == 0) ++begun;
  }
}

// Four ranks, all of which have summed once when this returns.
Processes start_summing(const std::string& url, const banyan_config_t& config) {
  std::atomic<int>& begun = shared_counter();
  Processes ranks;
  for (int rank = 0; rank < 4; ++rank) {
    ranks.push_back(start_rank(url, 4, rank, config,
                               [rank, &begun](banyan_comm_t comm) { return sum_for_ever(comm, rank, begun); }));
  }
  wait_until(begun, 4);
  return ranks;
}

TEST(JobThatIsStopped, GoesOnAfterALongerTimeThanItsTimeout) {
  constexpr milliseconds kStop{2100};
  const auto rounds = static_cast<int>(setting("BANYAN_TEST_SUSPENSIONS", 10));
  const MeetingPlace place;
  const Processes ranks = start_summing(place.url(), config_with(2, 60));
  for (int round = 0; round < rounds; ++round) {
    for (const auto& rank : ranks) rank->signal(SIGSTOP);
    std::this_thread::sleep_for(kStop);
    for (const auto& rank : ranks) rank->signal(SIGCONT);
    std::this_thread::sleep_for(milliseconds(20 + 10 * (round % 5)));
    for (const auto& rank : ranks) ASSERT_EQ(rank->await(milliseconds(1)), "still runs") << "round " << round;
  }
  std::this_thread::sleep_for(seconds(1));
  for (const auto& rank : ranks) EXPECT_EQ(rank->await(milliseconds(1)), "still runs");
}

TEST(RankThatIsStopped, IsNamedByTheOthers) {
  const MeetingPlace place;
  const Processes ranks = start_summing(place.url(), config_with(2.5, 60));
  ranks[2]->signal(SIGSTOP);
  for (const int rank : {0, 1, 3}) {
    EXPECT_THAT(ranks[rank]->await(milliseconds(4500) + kBusy),
                AllOf(HasSubstr("sum: timed out"), HasSubstr("rank 2")));
  }
  ranks[2]->signal(SIGCONT);
  EXPECT_THAT(ranks[2]->await(kBusy), HasSubstr("sum: timed out")) << "it learns what the others have said";
}

// ---- Joining ----

std::string be_joined(banyan_comm_t comm) {
  const banyan_result_t result = banyan_barrier(comm, nullptr);
  banyan_comm_destroy(comm);
  return outcome("barrier", result);
}

enum class By : uint8_t { file, tcp };
class Joining : public ::testing::TestWithParam<By> {
 protected:
  std::string url() const { return GetParam() == By::file ? place_.url() : "tcp://127.0.0.1:" + std::to_string(port_); }
  // Ranks 0 to 2 of four; the last one is missing. They have met when this returns.
  Processes start_three(const banyan_config_t& config) const {
    Processes ranks;
    for (int rank = 0; rank < 3; ++rank) ranks.push_back(start_rank(url(), 4, rank, config, be_joined));
    std::this_thread::sleep_for(seconds(1));
    return ranks;
  }

 private:
  const MeetingPlace place_;
  const uint16_t port_ = run::free_port();
};
INSTANTIATE_TEST_SUITE_P(By, Joining, ::testing::Values(By::file, By::tcp),
                         [](const auto& test) { return test.param == By::file ? "File" : "Tcp"; });

TEST_P(Joining, NamesARankThatDiesWhileOthersHaveStillToCome) {
  constexpr milliseconds kNamed{1000};
  for (const int dead : {1, 2, 0}) {
    Processes ranks = start_three(config_with(20, 100));
    const Clock::time_point begin = Clock::now();
    ranks[dead]->signal(SIGKILL);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == dead) continue;
      const std::string report = ranks[rank]->await(kNamed + kBusy);
      EXPECT_THAT(report, AllOf(StartsWith("join: a rank was lost"), HasSubstr("rank " + std::to_string(dead))))
          << rank;
      std::cout << "rank " << rank << " after "
                << std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count() << " ms: " << report << "\n";
    }
  }
}

TEST_P(Joining, GoesOnWhenAllWereStoppedForLongerThanItsTimeout) {
  const banyan_config_t config = config_with(20, 4);
  Processes ranks = start_three(config);
  for (const auto& rank : ranks) rank->signal(SIGSTOP);
  std::this_thread::sleep_for(seconds(5));
  for (const auto& rank : ranks) rank->signal(SIGCONT);
  ranks.push_back(start_rank(url(), 4, 3, config, be_joined));
  for (const auto& rank : ranks) EXPECT_EQ(rank->await(seconds(60)), "barrier: success; ");
}

TEST_P(Joining, EndsAtItsTimeout) {
  const Clock::time_point begin = Clock::now();
  Processes ranks = start_three(config_with(20, 2));
  for (const auto& rank : ranks) {
    EXPECT_THAT(rank->await(seconds(5) + kBusy),
                AllOf(StartsWith("join: timed out"), HasSubstr("rank 3 has not come")));
  }
  EXPECT_GE(Clock::now() - begin, seconds(2));
}

// ---- What banyan.h says ----

TEST(Interface, SaysOfEveryFunctionHowLongItMayTake) {
  const std::string header = read_file(BANYAN_HEADER);
  int functions = 0;
  for (size_t at = 0; (at = header.find("(", at)) != std::string::npos; ++at) {
    const size_t line = header.rfind('\n', at) + 1;
    const std::string before = header.substr(line, at - line);
    const size_t name = before.rfind(" banyan_");
    if (name == std::string::npos || before.starts_with(" ") || before.starts_with("/") ||
        before.starts_with("typedef"))
      continue;
    ++functions;
    const std::string above = header.substr(0, line);
    const std::string comment = above.ends_with("*/\n") ? above.substr(above.rfind("/*")) : "";
    EXPECT_THAT(comment, HasSubstr("Time:")) << before;
  }
  EXPECT_GE(functions, 50);
}

}  // namespace
}  // namespace banyan::c
