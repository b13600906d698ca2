#include "banyan/run/system/processes.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr std::chrono::seconds kLong{60};

// What run_processes throws; every process must be gone then.
Error failure_of(uint32_t count, std::chrono::milliseconds timeout, const std::function<std::string(uint32_t)>& body) {
  try {
    run_processes(count, timeout, body);
  } catch (const Error& error) {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
    EXPECT_EQ(errno, ECHILD) << "a child was left behind";
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return Error(ErrorCode::io, "");
}

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

TEST(Processes, ReturnWhatTheyFound) {
  EXPECT_THAT(run_processes(3, kLong, [](uint32_t rank) { return std::string(rank * 2, 'x'); }),
              ElementsAre("", "xx", "xxxx"));
}

TEST(Processes, ReturnMoreThanAPipeHolds) {
  const auto reports = run_processes(2, kLong, [](uint32_t rank) { return std::string(1'000'000 + rank, 'x'); });
  EXPECT_EQ(reports[0].size(), 1'000'000u);
  EXPECT_EQ(reports[1].size(), 1'000'001u);
}

TEST(Processes, ThatAreKilledAreNamedAndTheOthersEnded) {
  const Error error = failure_of(4, kLong, [](uint32_t rank) -> std::string {
    if (rank == 2) raise(SIGKILL);
    sleep_for_ever();
  });
  EXPECT_EQ(error.code(), ErrorCode::peer_lost);
  EXPECT_THAT(error.what(), HasSubstr("rank 2 was ended by signal 9"));
}

TEST(Processes, ThatExitOnTheirOwnAreNamed) {
  EXPECT_THAT(failure_of(2, kLong,
                         [](uint32_t rank) -> std::string {
                           if (rank == 1) _exit(7);
                           sleep_for_ever();
                         })
                  .what(),
              HasSubstr("rank 1 ended without a report, with status 7"));
}

TEST(Processes, PassTheirErrorsOn) {
  const Error error = failure_of(3, kLong, [](uint32_t rank) -> std::string {
    if (rank == 1) throw Error(ErrorCode::unsupported, "too much");
    sleep_for_ever();
  });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.where(), "rank 1");
  EXPECT_EQ(error.message(), "too much");
}

TEST(Processes, ThatThrowAnythingElseCountAsDead) {
  const Error error = failure_of(2, kLong, [](uint32_t rank) -> std::string {
    if (rank == 0) throw std::logic_error("a bug");
    sleep_for_ever();
  });
  EXPECT_EQ(error.code(), ErrorCode::peer_lost);
  EXPECT_THAT(error.what(), HasSubstr("rank 0 was ended by signal 6"));
}

TEST(Processes, ThatLostAPeerDoNotHideTheCulprit) {
  const Error error = failure_of(3, kLong, [](uint32_t rank) -> std::string {
    if (rank == 0) throw Error(ErrorCode::peer_lost, "the connection to rank 2 was lost");
    if (rank == 2) {
      usleep(100'000);  // dies after it was missed
      raise(SIGTERM);
    }
    sleep_for_ever();
  });
  EXPECT_THAT(error.what(), HasSubstr("rank 2 was ended by signal 15"));
}

TEST(Processes, ThatLostAPeerAreBelievedWhenNobodyElseIsToBlame) {
  const Error error = failure_of(2, kLong, [](uint32_t rank) -> std::string {
    if (rank == 0) throw Error(ErrorCode::peer_lost, "the connection to rank 1 was lost");
    sleep_for_ever();
  });
  EXPECT_EQ(error.code(), ErrorCode::peer_lost);
  EXPECT_THAT(error.what(), HasSubstr("rank 0: the connection to rank 1 was lost"));
}

TEST(Processes, AreEndedWhenTheTimeIsOver) {
  const Error error = failure_of(3, std::chrono::milliseconds(50), [](uint32_t rank) -> std::string {
    if (rank == 1) return "done";
    sleep_for_ever();
  });
  EXPECT_EQ(error.code(), ErrorCode::timed_out);
  EXPECT_THAT(error.what(), HasSubstr("before rank 0, 2 had finished"));
}

TEST(Processes, EndWithTheirParent) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    // The children hold the writing end as long as they live.
    run_processes(2, kLong, [&](uint32_t) -> std::string {
      if (write(pipe_ends[1], "x", 1) != 1) _exit(1);
      sleep_for_ever();
    });
    _exit(1);
  }
  close(pipe_ends[1]);
  char byte;
  ASSERT_EQ(read(pipe_ends[0], &byte, 1), 1);
  ASSERT_EQ(read(pipe_ends[0], &byte, 1), 1);
  kill(parent, SIGKILL);
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 0) << "a child writes on";  // returns when both are gone
  close(pipe_ends[0]);
  waitpid(parent, nullptr, 0);
}

}  // namespace
}  // namespace banyan::run
