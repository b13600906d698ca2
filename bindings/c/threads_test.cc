// Two to eight threads use one communicator, and it fails: each of them gets an error of the right code, at once or at
// the timeout, and no call ends the process, hangs or succeeds with wrong data. Whatever fails does so while threads
// wait for their turn.
//
// BANYAN_TEST_RUNS says how often each kind of failure is tried.
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>

#include "banyan/testing/test.h"
#include "bindings/c/test_faults.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

// The time limit of a run, in seconds. A busy machine may pass the short one before anything has failed, which counts
// as told; it does not pass the long one.
constexpr double kShort = 0.2, kLong = 20;
bool is_short(int run) { return run % 4 < 2; }
constexpr int kCalls = 30;  // of each thread

int runs() { return static_cast<int>(setting("BANYAN_TEST_RUNS", 30)); }

// What one thread has seen. It allocates nothing, since its allocations may fail.
struct Seen {
  banyan_result_t result = BANYAN_SUCCESS;
  char text[600] = "";
  bool is_wrong = false;
};

// How a run goes: which thread does what before which of its calls.
struct Failure {
  const char* name;
  banyan_result_t due;
  // Elements of the calls of a thread; a rank may be in several at once, so that equal ones may meet in any order.
  size_t (*count)(int thread, int run) = [](int, int run) { return run % 2 == 0 ? size_t{1} : size_t{3000}; };
  // By rank 1, in its thread 0. True: the thread ends here.
  bool (*strike)(banyan_comm_t comm) = [](banyan_comm_t) { return false; };
  bool ends_all_threads = false;              // of rank 1
  banyan_result_t also_due = BANYAN_SUCCESS;  // another code that is right
};

class Attempt {
 public:
  Attempt(const Failure& failure, int number, banyan_comm_t comm, int rank)
      : failure_(failure), number_(number), comm_(comm), rank_(rank), seen_(static_cast<size_t>(threads())) {
    banyan_comm_count(comm, &size_);
    for (int thread = 0; thread < threads(); ++thread) values_.emplace_back(failure.count(thread, number));
  }

  // What is not as it should be.
  std::string carry_out() {
    std::vector<std::thread> all;
    for (int thread = 0; thread < threads(); ++thread)
      all.emplace_back([this, thread] { call_again_and_again(thread); });
    for (std::thread& thread : all) thread.join();
    std::string trouble;
    bool has_failed = false;
    for (int thread = 0; thread < threads(); ++thread) {
      const Seen& seen = seen_[static_cast<size_t>(thread)];
      has_failed |= seen.result != BANYAN_SUCCESS;
      const bool is_right = seen.result == BANYAN_SUCCESS || seen.result == failure_.due ||
                            seen.result == failure_.also_due || (seen.result == BANYAN_TIMED_OUT && is_short(number_));
      if (is_right && !seen.is_wrong) continue;
      trouble += " thread " + std::to_string(thread) + " of " + std::to_string(threads()) + ": " +
                 (seen.is_wrong ? "wrong data" : banyan_result_text(seen.result)) + " '" + seen.text + "'";
    }
    if (!has_failed && rank_ == 0 && failure_.due != BANYAN_MISMATCH) trouble += " no thread has failed";
    return trouble.empty() ? "" : std::string(failure_.name) + ", run " + std::to_string(number_) + ":" + trouble;
  }

 private:
  int threads() const { return 2 + number_ % 7; }
  int strikes_at() const { return 3 + number_ % 11; }

  void call_again_and_again(int thread) {
    Seen& seen = seen_[static_cast<size_t>(thread)];
    std::vector<int>& values = values_[static_cast<size_t>(thread)];
    for (int call = 0; call < kCalls && seen.result == BANYAN_SUCCESS && !seen.is_wrong; ++call) {
      if (rank_ == 1 && call == strikes_at()) {
        if (failure_.ends_all_threads) return;
        if (thread == 0 && failure_.strike(comm_)) return;
      }
      std::fill(values.begin(), values.end(), 1);
      seen.result =
          banyan_all_reduce(values.data(), values.data(), values.size(), BANYAN_INT32, BANYAN_SUM, comm_, nullptr);
      if (seen.result != BANYAN_SUCCESS) {
        std::snprintf(seen.text, sizeof seen.text, "%s", banyan_last_error(nullptr));
      } else {
        for (const int value : values) seen.is_wrong |= value != size_;
      }
    }
  }

  const Failure& failure_;
  const int number_;
  const banyan_comm_t comm_;
  const int rank_;
  int size_ = 0;
  std::vector<Seen> seen_;
  std::vector<std::vector<int>> values_;  // of each thread
};

banyan_config_t limited_to(double seconds) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = seconds;
  return config;
}

banyan_config_t limits_of(const Failure& failure, int run) {
  return limited_to(is_short(run) || failure.due == BANYAN_TIMED_OUT ? kShort : kLong);
}

// Of all runs, those of one pair of processes, which may last two minutes.
struct Runs {
  int first = 0, end = 0;
};

std::vector<Runs> batches() {
  constexpr int kMost = 60;
  std::vector<Runs> all;
  for (int first = 0; first < runs(); first += kMost) all.push_back({first, std::min(first + kMost, runs())});
  return all;
}

// Until another rank has told of one: so the thread is late, however slowly the others have come to wait for it.
void await_failure(banyan_comm_t comm) {
  banyan_result_t error = BANYAN_SUCCESS;
  while (error == BANYAN_SUCCESS) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    banyan_comm_get_async_error(comm, &error);
  }
}

// Each run in a communicator of its own, of which nothing but it is lost.
std::string run_in_parts(const Failure& failure, const Runs& batch, banyan_comm_t world, int rank,
                         std::string (*at_the_end)(banyan_comm_t part) = nullptr) {
  for (int run = batch.first; run < batch.end; ++run) {
    const banyan_config_t config = limits_of(failure, run);
    banyan_comm_t part = nullptr;
    if (banyan_comm_split(world, 0, 0, &part, &config) != BANYAN_SUCCESS) {
      return std::string(failure.name) + ", split before run " + std::to_string(run) + ": " + banyan_last_error(world);
    }
    std::string trouble = Attempt(failure, run, part, rank).carry_out();
    if (at_the_end != nullptr) trouble += at_the_end(part);
    banyan_comm_destroy(part);
    if (!trouble.empty()) return trouble;
  }
  return "";
}

void expect_all_told(const Failure& failure, int ranks, std::string (*at_the_end)(banyan_comm_t part) = nullptr) {
  for (const Runs& batch : batches()) {
    const auto body = [&](banyan_comm_t world, int rank) {
      return run_in_parts(failure, batch, world, rank, at_the_end);
    };
    EXPECT_THAT(run_ranks(ranks, body), Each(""));
  }
}

TEST(ThreadsOfOneCommunicator, AreAllToldThatTheirCallsDiffer) {
  const Failure differ{.name = "differ", .due = BANYAN_MISMATCH, .count = [](int thread, int run) {
                         return (run % 2 == 0 ? size_t{1} : size_t{1000}) * static_cast<size_t>(1 + thread);
                       }};
  expect_all_told(differ, 2);
}

TEST(ThreadsOfOneCommunicator, AreAllToldThatARankIsLate) {
  const Failure late{.name = "late", .due = BANYAN_TIMED_OUT, .strike = [](banyan_comm_t comm) {
                       await_failure(comm);
                       return false;
                     }};
  expect_all_told(late, 2);
}

TEST(ThreadsOfOneCommunicator, AreAllToldThatARankAborts) {
  const Failure abort{.name = "abort", .due = BANYAN_ABORTED, .strike = [](banyan_comm_t comm) {
                        banyan_comm_abort(comm);
                        return false;
                      }};
  expect_all_told(abort, 3);
}

// Of the world: the good-bye is that of its process.
TEST(ThreadsOfOneCommunicator, AreAllToldThatARankHasLeft) {
  const Failure leave{.name = "leave", .due = BANYAN_PEER_LOST, .ends_all_threads = true};
  for (int run = 0; run < runs(); ++run) {
    const banyan_config_t config = limits_of(leave, run);
    const auto body = [&](banyan_comm_t comm, int rank) { return Attempt(leave, run, comm, rank).carry_out(); };
    EXPECT_THAT(run_ranks(2, body, &config), Each(""));
  }
}

// The other threads of the rank that shrinks are in calls.
TEST(ThreadsOfOneCommunicator, GoOnInTheShrunkenOne) {
  static banyan_comm_t shrunken = nullptr;
  static const banyan_config_t patient = limited_to(kLong);  // what is proved is that it works, not how soon
  static bool has_struck = false;                            // rank 1; a short time limit may end its calls before
  const Failure shrink{.name = "shrink", .due = BANYAN_ABORTED, .strike = [](banyan_comm_t comm) {
                         has_struck = true;
                         banyan_comm_shrink(comm, nullptr, 0, &shrunken, &patient);
                         return true;
                       }};
  const auto go_on = [](banyan_comm_t part) -> std::string {
    if (!std::exchange(has_struck, false) &&
        banyan_comm_shrink(part, nullptr, 0, &shrunken, &patient) != BANYAN_SUCCESS) {
      return std::string(" shrink: ") + banyan_last_error(nullptr);
    }
    const std::string sum = shrunken != nullptr ? sum_of_ranks(shrunken) : "rank 1 could not shrink it";
    banyan_comm_destroy(std::exchange(shrunken, nullptr));
    return sum == "3" ? "" : " afterwards: " + sum;
  };
  expect_all_told(shrink, 2, go_on);
}

TEST(ThreadsOfOneCommunicator, AreAllToldThatARankIsDead) {
  const Failure death{.name = "death", .due = BANYAN_PEER_LOST, .strike = [](banyan_comm_t) {
                        raise(SIGKILL);
                        return true;
                      }};
  for (int run = 0; run < runs(); ++run) {
    const banyan_config_t config = limits_of(death, run);
    const auto body = [&](banyan_comm_t comm, int rank) { return Attempt(death, run, comm, rank).carry_out(); };
    // A short time limit may end the calls of rank 1 before it comes to die.
    EXPECT_THAT(run_ranks(2, body, &config),
                ElementsAre("", ::testing::AnyOf("killed by 9", is_short(run) ? "" : "killed by 9")));
  }
}

// All connections of the rank end at once; both processes live. Whether the ranks make others and go on, or fail, is
// the transport's matter.
void shut_down_all_connections() {
  DIR* const folder = opendir("/proc/self/fd");
  for (const dirent* entry = readdir(folder); entry != nullptr; entry = readdir(folder)) {
    shutdown(std::atoi(entry->d_name), SHUT_RDWR);
  }
  closedir(folder);
}

TEST(ThreadsOfOneCommunicator, EndWhenAllConnectionsAreLost) {
  const Failure loss{.name = "lost link", .due = BANYAN_PEER_LOST, .strike = [](banyan_comm_t) {
                       shut_down_all_connections();
                       return false;
                     }};
  const banyan_config_t config = limited_to(2);
  for (int run = 0; run < (runs() + 9) / 10; ++run) {
    const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
      const std::string trouble = Attempt(loss, run, comm, rank).carry_out();
      return trouble.ends_with("no thread has failed") ? "" : trouble;
    };
    EXPECT_THAT(run_ranks(2, body, &config), Each(""));
  }
}

// One allocation after the other fails in some thread of rank 1. Rank 0 is told why, or that rank 1 has left. Skipped
// where the library that makes them fail is not loaded.
TEST(ThreadsOfOneCommunicator, EndWhenThereIsNoMemory) {
  auto* const faults_begin = reinterpret_cast<FaultsBegin*>(dlsym(RTLD_DEFAULT, "banyan_faults_begin"));
  if (faults_begin == nullptr) GTEST_SKIP() << "the library of faults is not loaded";
  const Failure shortage{.name = "no memory", .due = BANYAN_SYSTEM_ERROR, .also_due = BANYAN_PEER_LOST};
  for (int run = 0; run < runs(); ++run) {
    const banyan_config_t config = limits_of(shortage, run);
    const auto body = [&](banyan_comm_t comm, int rank) -> std::string {
      const FaultPlan plan{.kind = FaultKind::allocation,
                           .thread = FaultThread::other,
                           .number = static_cast<uint32_t>(1 + run),
                           .all_after = run % 3 == 2};
      if (rank == 1) faults_begin(&plan);
      const std::string trouble = Attempt(shortage, run, comm, rank).carry_out();
      return trouble.ends_with("no thread has failed") ? "" : trouble;
    };
    EXPECT_THAT(run_ranks(2, body, &config), Each(""));
  }
}

}  // namespace
}  // namespace banyan::c
