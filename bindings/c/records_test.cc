// Flight records: that ranks write them when something fails and when somebody asks, and that the doctor says of them
// what the ranks said.
#include <signal.h>
#include <unistd.h>

#include "banyan/run/record/ask.h"
#include "banyan/run/record/diagnosis.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"
#include "banyan/testing/withheld_time.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using Clock = std::chrono::steady_clock;

class Records : public ::testing::Test {
 protected:
  Records() : place_(new MeetingPlace()) {
    setenv("BANYAN_RECORDER_DIR", folder().c_str(), 1);
    setenv("BANYAN_TIMEOUT", "20", 1);
  }
  ~Records() override { unsetenv("BANYAN_TIMEOUT"); }

  std::string folder() const { return place_->folder() + "/records"; }
  // The likeliest cause.
  run::Finding finding() const {
    const run::Diagnosis diagnosis = diagnose(run::read_dumps(folder()));
    if (!diagnosis.findings.empty()) return diagnosis.findings.front();
    run::Finding healthy;
    healthy.sentence = "healthy";
    return healthy;
  }
  // The ranks that have written a record for this reason.
  std::vector<uint32_t> ranks_with(run::DumpReason reason) const {
    std::vector<uint32_t> ranks;
    for (const run::RankDump& dump : run::read_dumps(folder())) {
      if (dump.reason == reason) ranks.push_back(dump.rank);
    }
    return ranks;
  }

 private:
  std::unique_ptr<MeetingPlace> place_;
};

// Of `elements`, in place; the text of the error, or "".
std::string all_reduce(banyan_comm_t comm, size_t elements, double* took = nullptr) {
  std::vector<float> values(elements, 1.0F);
  const Clock::time_point begin = Clock::now();
  const banyan_result_t result =
      banyan_all_reduce(BANYAN_IN_PLACE, values.data(), elements, BANYAN_FLOAT32, BANYAN_SUM, comm, nullptr);
  if (took != nullptr) *took = std::chrono::duration<double>(Clock::now() - begin).count();
  return result == BANYAN_SUCCESS ? "" : banyan_last_error(comm);
}

// By rank.
TEST_F(Records, AreWrittenWhenARankDies) {
  const RankBody body = [](banyan_comm_t comm, int rank) {
    all_reduce(comm, 100);
    if (rank == 1) raise(SIGKILL);
    return all_reduce(comm, 100);
  };
  EXPECT_THAT(run_ranks(3, body), ElementsAre(HasSubstr("rank 1 is dead"), "killed by 9", HasSubstr("rank 1 is dead")));
  EXPECT_THAT(ranks_with(run::DumpReason::error), ElementsAre(0, 2));
  EXPECT_EQ(finding().kind, run::FindingKind::dead) << finding().sentence;
  EXPECT_THAT(finding().ranks, ElementsAre(1));
}

TEST_F(Records, AreWrittenWhenRanksCallDifferentThings) {
  const RankBody body = [](banyan_comm_t comm, int rank) { return all_reduce(comm, rank == 1 ? 99 : 100); };
  EXPECT_THAT(run_ranks(3, body), Each(HasSubstr("the counts differ")));
  EXPECT_EQ(run::read_dumps(folder()).size(), 3u);
  EXPECT_EQ(finding().kind, run::FindingKind::mismatch) << finding().sentence;
}

TEST_F(Records, AreWrittenWhenARankLeaves) {
  const RankBody leave = [](banyan_comm_t comm, int rank) { return rank == 1 ? "" : all_reduce(comm, 100); };
  EXPECT_THAT(run_ranks(3, leave), ElementsAre(HasSubstr("rank 1"), "", HasSubstr("rank 1")));
  EXPECT_THAT(finding().ranks, ElementsAre(1)) << finding().sentence;
}

TEST_F(Records, AreWrittenWhenARankAborts) {
  const RankBody abort = [](banyan_comm_t comm, int rank) -> std::string {
    if (rank == 1) banyan_comm_abort(comm);
    return rank == 1 ? "" : all_reduce(comm, 100);
  };
  EXPECT_THAT(run_ranks(3, abort), ElementsAre(HasSubstr("rank 1 aborted"), "", HasSubstr("rank 1 aborted")));
  EXPECT_THAT(run::read_dumps(folder()), SizeIs(3));
  for (const run::RankDump& dump : run::read_dumps(folder())) EXPECT_THAT(dump.message, HasSubstr("rank 1 aborted"));
}

// The time-out comes when it was promised, and the doctor gives the same judgement as the ranks.
TEST_F(Records, CallAStoppedRankSilentAsTheErrorDoes) {
  constexpr double kTimeout = 2;
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = kTimeout;
  std::atomic<int>&withheld = shared_counter(), &entered = shared_counter(), &stopped = shared_counter();
  const RankBody body = [&](banyan_comm_t comm, int rank) -> std::string {
    ++entered;
    wait_until(entered, 3);
    if (rank == 1) {
      stopped = getpid();
      raise(SIGSTOP);
    }
    const WithheldTime counts(withheld);
    double took = 0;
    const std::string error = all_reduce(comm, 100, &took);
    if (rank == 0) {
      // The other one is told, or notices by itself; only then the stopped one may go.
      std::this_thread::sleep_for(milliseconds(500));
      kill_once_known(stopped);
    }
    const bool is_in_time = took >= kTimeout - 0.1 && took < kTimeout + 0.9 + withheld * 1e-3;
    return error + (is_in_time ? "" : " after " + std::to_string(took) + " s");
  };
  const auto says_so = AllOf(HasSubstr("rank 1 gives no sign of life"), ::testing::Not(HasSubstr(" after ")));
  EXPECT_THAT(run_ranks(3, body, &config), ElementsAre(says_so, "killed by 9", says_so));
  EXPECT_EQ(finding().kind, run::FindingKind::silent) << finding().sentence;
  EXPECT_THAT(finding().ranks, ElementsAre(1));
}

// ---- Messages that nobody sends, or receives ----

banyan_config_t impatient() {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = 0.5;
  return config;
}

// The error, or "" where there was none.
std::string error_of(banyan_comm_t comm, banyan_result_t result) {
  if (result == BANYAN_SUCCESS) return "";
  return (result == BANYAN_TIMED_OUT ? "" : "another error: ") + std::string(banyan_last_error(comm));
}

// A pipeline in which rank 1 leaves out its sixth send: it is named, and not those that wait because of it.
TEST_F(Records, NameARankThatHasForgottenAMessage) {
  const banyan_config_t config = impatient();
  const RankBody body = [](banyan_comm_t comm, int rank) -> std::string {
    int32_t value = 0;
    for (int i = 0; i < 20; ++i) {
      if (rank > 0) {
        const banyan_result_t result = banyan_recv(&value, 1, BANYAN_INT32, rank - 1, comm, nullptr);
        if (result != BANYAN_SUCCESS) return error_of(comm, result);
      }
      if (rank == 3 || (rank == 1 && i == 5)) continue;
      const banyan_result_t result = banyan_send(&value, 1, BANYAN_INT32, rank + 1, comm, nullptr);
      if (result != BANYAN_SUCCESS) return error_of(comm, result);
    }
    return error_of(comm, banyan_barrier(comm, nullptr));
  };
  const char* const all = "rank 2 waits for message 20 of rank 1 (tag 0), which has sent 19 and is in barrier #1";
  const auto errors = run_ranks(4, body, &config);
  EXPECT_THAT(errors, Each(HasSubstr(all)));
  const char* const own[] = {"barrier", "barrier", "rank 1", "rank 2"};
  for (size_t rank = 0; rank < 4; ++rank) EXPECT_THAT(errors[rank], HasSubstr(own[rank]));
  EXPECT_EQ(finding().sentence, all);
  EXPECT_THAT(finding().ranks, ElementsAre(1));
}

TEST_F(Records, AreWrittenByAllRanksWhenOneProgramAsks) {
  const RankBody body = [](banyan_comm_t comm, int rank) -> std::string {
    all_reduce(comm, 100);
    if (rank == 2 && banyan_comm_dump(comm, "curious") != BANYAN_SUCCESS) return banyan_last_error(comm);
    std::this_thread::sleep_for(milliseconds(rank == 2 ? 300 : 0));  // the others wait in the call meanwhile
    return all_reduce(comm, 100);
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
  EXPECT_THAT(ranks_with(run::DumpReason::asked), ElementsAre(0, 1, 2));
  for (const run::RankDump& dump : run::read_dumps(folder())) EXPECT_EQ(dump.message, "curious");
}

TEST_F(Records, AreWrittenByAllRanksWhenAPersonAsksOneProcess) {
  std::atomic<int>& asked = shared_counter();
  const RankBody body = [&](banyan_comm_t comm, int rank) -> std::string {
    if (rank == 1) asked = getpid();
    if (rank != 0) return all_reduce(comm, 100);
    wait_until(asked, 1);
    try {
      run::ask_for_records(asked, folder());
    } catch (const Error& error) {
      return error.what();
    }
    return all_reduce(comm, 100);
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
  EXPECT_THAT(ranks_with(run::DumpReason::asked), ElementsAre(0, 1, 2));
  EXPECT_THAT(run::read_dumps(folder()).front().message, HasSubstr("signal"));
}

TEST_F(Records, AreAskedOfNobodyWhomTheSignalWouldKill) {
  const run::Child process([] { return pause(); });
  std::string refusal;
  try {
    run::ask_for_records(process.id(), folder());
  } catch (const Error& error) {
    refusal = error.what();
  }
  EXPECT_THAT(refusal, HasSubstr("answers no dump signal"));
}

TEST_F(Records, AreFewHoweverOftenAProgramFails) {
  constexpr size_t kRounds = 20;
  static_assert(kRounds > run::kMostDumps);
  const RankBody body = [](banyan_comm_t comm, int rank) -> std::string {
    banyan_comm_t current = comm;
    for (size_t round = 0; round < kRounds; ++round) {
      if (all_reduce(current, rank == 1 ? 99 : 100).empty()) return "no mismatch";
      banyan_comm_t next = nullptr;
      require(banyan_comm_shrink(current, nullptr, 0, &next, nullptr));
      if (current != comm) banyan_comm_destroy(current);
      current = next;
    }
    return banyan_comm_destroy(current) == BANYAN_SUCCESS ? "" : banyan_last_error(nullptr);
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
  EXPECT_LE(run::read_dumps(folder()).size(), 2 * run::kMostDumps);
}

}  // namespace
}  // namespace banyan::c
