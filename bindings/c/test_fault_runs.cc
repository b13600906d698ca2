// Runs a small program of a few ranks again and again, and each time lets another allocation or system call of one of
// them fail (test_faults.h). Every rank must end within the deadline and without a signal, with right data or an error
// that says what failed. A run that does not is printed as a line that repeats it.
//
//   banyan_c_fault_runs [--transport shm|tcp|ucx] [--size N] [--rank R] [--kind allocation|call]
//       [--thread main|agent|progress|other] [--after] [--from N] [--to N] [--sample COUNT] [--seed S] [--show]
//
// Without --kind or --thread all of them, one after the other. --after: all calls after it fail as well. --sample takes
// so many of the numbers, by chance. --show prints where the call failed. Where gdb is installed, it prints to stderr
// where a rank hangs.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/shared_among_processes.h"
#include "bindings/c/test_faults.h"
#include "bindings/c/test_options.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRanks = 4;
// Each wait of a rank is far shorter; a shrink may take twice its patience and ten seconds.
constexpr std::chrono::seconds kLongest{30};

// ---- A rank. It allocates nothing itself, so that all that fails is Banyan's. ----

// What a rank leaves in memory that it shares with its parent.
struct Report {
  char step[32];
  banyan_result_t result;
  char text[400];
  char wrong[160];
  uint32_t counts[kFaultKinds][kFaultThreads];
  uint32_t fired;
  char failed[32];
  bool is_over;
};

constexpr size_t kSizes[] = {1, 1000, 50'000, 400'000};
constexpr size_t kLargest = 400'000;
int32_t input[kLargest * kMostRanks], output[kLargest * kMostRanks];

int32_t value_of(int rank, size_t position) { return rank * 1000 + static_cast<int32_t>(position % 997); }

class Rank {
 public:
  Rank(Report& report, int rank, int size, int victim) : report_(report), rank_(rank), size_(size), victim_(victim) {}

  // Calls until one fails, and destroys what there is.
  void run(const char* url, const banyan_config_t& config) {
    config_ = &config;
    if (is_fine("join", banyan_comm_init_url(&comm_, url, size_, rank_, config_))) work();
    for (banyan_comm_t* comm : {&part_, &smaller_, &comm_}) {
      if (*comm == nullptr) continue;
      const banyan_result_t result = banyan_comm_destroy(*comm);
      if (result != BANYAN_SUCCESS) note("destroy", result, banyan_last_error(nullptr));
    }
  }

 private:
  void work() {
    for (const size_t count : kSizes) {
      if (!reduces(comm_, count, size_) || !gathers(count / 8 + 1)) return;
    }
    if (!sends(1) || !sends(100'000) || !works_aside()) return;
    if (!is_fine("split", banyan_comm_split(comm_, 0, -rank_, &part_, config_))) return;
    if (!reduces(part_, 1000, size_)) return;
    if (rank_ == victim_) {
      if (!is_fine("barrier", banyan_barrier(comm_, nullptr))) return;
      kill(getpid(), SIGKILL);
    }
    if (!is_fine("barrier", banyan_barrier(comm_, nullptr))) return;
    if (banyan_all_reduce(input, output, 1000, BANYAN_INT32, BANYAN_SUM, comm_, nullptr) == BANYAN_SUCCESS) {
      return say_wrong("a call of all ranks succeeded without rank %d", victim_);
    }
    if (is_fine("shrink", banyan_comm_shrink(comm_, nullptr, 0, &smaller_, config_))) counts_survivors();
  }

  bool reduces(banyan_comm_t comm, size_t count, int size) {
    for (size_t i = 0; i < count; ++i) input[i] = value_of(rank_, i);
    if (!is_fine("all_reduce", banyan_all_reduce(input, output, count, BANYAN_INT32, BANYAN_SUM, comm, nullptr))) {
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      int32_t sum = 0;
      for (int rank = 0; rank < size; ++rank) sum += value_of(rank, i);
      if (output[i] == sum) continue;
      say_wrong("all_reduce: element %d", static_cast<int>(i));
      return false;
    }
    return true;
  }

  bool gathers(size_t count) {
    for (size_t i = 0; i < count; ++i) input[i] = value_of(rank_, i);
    if (!is_fine("all_gather", banyan_all_gather(input, output, count, BANYAN_INT32, comm_, nullptr))) return false;
    for (size_t i = 0; i < count * static_cast<size_t>(size_); ++i) {
      if (output[i] == value_of(static_cast<int>(i / count), i % count)) continue;
      say_wrong("all_gather: element %d", static_cast<int>(i));
      return false;
    }
    return true;
  }

  // To the next in the ring, from the one before.
  bool sends(size_t count) {
    const int before = (rank_ + size_ - 1) % size_;
    banyan_request_t requests[2] = {nullptr, nullptr};
    for (size_t i = 0; i < count; ++i) input[i] = value_of(rank_, i);
    bool is_well = is_fine("recv", banyan_recv(output, count, BANYAN_INT32, before, comm_, &requests[0])) &&
                   is_fine("send", banyan_send(input, count, BANYAN_INT32, (rank_ + 1) % size_, comm_, &requests[1]));
    for (banyan_request_t& request : requests) {
      if (request != nullptr) is_well = is_fine("wait", banyan_wait(&request)) && is_well;
    }
    for (size_t i = 0; is_well && i < count; ++i) {
      if (output[i] == value_of(before, i)) continue;
      say_wrong("message: element %d", static_cast<int>(i));
      return false;
    }
    return is_well;
  }

  // Two calls in the background, waited for in the order of their end.
  bool works_aside() {
    constexpr size_t kCount = 5000;
    banyan_request_t requests[2] = {nullptr, nullptr};
    for (size_t i = 0; i < 2 * kCount; ++i) input[i] = value_of(rank_, i);
    bool is_well = true;
    for (size_t i = 0; i < 2 && is_well; ++i) {
      is_well = is_fine("start", banyan_all_reduce(input + i * kCount, output + i * kCount, kCount, BANYAN_INT32,
                                                   BANYAN_MAX, comm_, &requests[i]));
    }
    for (int i = 0; i < 2; ++i) {
      int index = 0;
      if (requests[0] == nullptr && requests[1] == nullptr) break;
      is_well = is_fine("wait_any", banyan_wait_any(requests, 2, &index)) && is_well;
    }
    for (size_t i = 0; is_well && i < 2 * kCount; ++i) {
      if (output[i] == value_of(size_ - 1, i)) continue;
      say_wrong("all_reduce aside: element %d", static_cast<int>(i));
      return false;
    }
    return is_well;
  }

  // Each counts once, in a bit of its own; those that were left out do not.
  void counts_survivors() {
    const int32_t own = 1 << rank_;
    int32_t all = 0;
    int size = 0;
    if (!is_fine("count", banyan_comm_count(smaller_, &size)) ||
        !is_fine("last", banyan_all_reduce(&own, &all, 1, BANYAN_INT32, BANYAN_SUM, smaller_, nullptr))) {
      return;
    }
    if (__builtin_popcount(static_cast<unsigned>(all)) != size || (all & own) == 0 || (all & 1 << victim_) != 0) {
      say_wrong("the survivors' sum is %d", all);
    }
  }

  bool is_fine(const char* step, banyan_result_t result) {
    if (result == BANYAN_SUCCESS) return true;
    note(step, result, banyan_last_error(nullptr));
    return false;
  }
  void note(const char* step, banyan_result_t result, const char* text) {
    if (report_.result != BANYAN_SUCCESS) return;  // the first counts
    report_.result = result;
    snprintf(report_.step, sizeof report_.step, "%s", step);
    snprintf(report_.text, sizeof report_.text, "%s", text);
  }
  void say_wrong(const char* format, int number) { snprintf(report_.wrong, sizeof report_.wrong, format, number); }

  Report& report_;
  const int rank_, size_, victim_;
  const banyan_config_t* config_ = nullptr;
  banyan_comm_t comm_ = nullptr, part_ = nullptr, smaller_ = nullptr;
};

// ---- A run of all ranks ----

struct Setup {
  std::string transport = "shm";
  int size = 2, rank = 0;
  // Another than the one that gets the fault: rank 0 has a part of its own among the agents.
  int victim() const { return rank == size - 1 ? 0 : size - 1; }
};

template <typename Function>
Function* of_faults(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

[[noreturn]] void be_rank(const Setup& setup, int rank, const char* url, const FaultPlan& plan, Report& report) {
  const bool is_hosts = setup.transport == "hosts";
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = 1;
  config.join_timeout = 2;
  config.transport = setup.transport.c_str();
  if (setup.transport == "shm") config.transport = "shm";
  if (is_hosts) config.transport = "auto";
  if (is_hosts) setenv("BANYAN_HOST_ID", rank % 2 == 0 ? "even" : "odd", 1);
  Rank body(report, rank, setup.size, setup.victim());
  if (rank == setup.rank) of_faults<FaultsBegin>("banyan_faults_begin")(&plan);
  body.run(url, config);
  if (rank == setup.rank) {
    of_faults<FaultsCount>("banyan_faults_count")(report.counts, &report.fired);
    const char* const failed = of_faults<FaultsFailed>("banyan_faults_failed")();
    if (failed != nullptr) snprintf(report.failed, sizeof report.failed, "%s", failed);
  }
  report.is_over = true;
  exit(0);
}

struct Outcome {
  std::string trouble;  // what must not be; empty when all is well
  std::string errors;   // that ranks returned
  Report faulty = {};
  std::chrono::milliseconds took{0};
};

std::string in_words(int rank, const Report& report) {
  std::string words = "rank " + std::to_string(rank) + ": ";
  if (report.wrong[0] != '\0') words += std::string("WRONG ") + report.wrong + "; ";
  if (report.result == BANYAN_SUCCESS) return words + "success";
  return words + report.step + " returned " + std::to_string(report.result) + " '" + report.text + "'";
}

std::string trouble_of(int rank, const Report& report, int status, bool is_victim) {
  const std::string name = "rank " + std::to_string(rank);
  if (WIFSIGNALED(status) && !(is_victim && WTERMSIG(status) == SIGKILL)) {
    return name + " was ended by signal " + std::to_string(WTERMSIG(status)) + "; ";
  }
  if (is_victim && WIFSIGNALED(status)) return "";
  if (!report.is_over || WEXITSTATUS(status) != 0) {
    return name + " ended with " + std::to_string(WEXITSTATUS(status)) + (report.is_over ? "; " : " too early; ");
  }
  const bool is_named = report.result != BANYAN_INTERNAL && report.text[0] != '\0';
  if (report.wrong[0] != '\0' || (report.result != BANYAN_SUCCESS && !is_named)) return in_words(rank, report) + "; ";
  return "";
}

void show_stacks(pid_t process) {
  const std::string command = "command -v gdb > /dev/null && env -u LD_PRELOAD gdb -p " + std::to_string(process) +
                              " -batch -ex 'thread apply all backtrace' >&2";
  if (system(command.c_str()) != 0) fprintf(stderr, "process %d: gdb could not be asked\n", process);
}

Outcome run_once(const Setup& setup, const FaultPlan& plan) {
  const MeetingPlace place;
  const std::string url = place.url();
  const testing::SharedAmongProcesses<std::array<Report, kMostRanks>> shared;
  Report* const reports = shared->data();  // by rank
  std::vector<run::Child> running;         // by rank
  Outcome outcome;
  const Clock::time_point begin = Clock::now();
  fflush(stdout);  // or each rank would write what is kept for it, too
  for (int rank = 0; rank < setup.size; ++rank) {
    running.emplace_back([&]() -> int {
      setenv("BANYAN_RECORDER_DIR", place.folder().c_str(), 1);
      be_rank(setup, rank, url.c_str(), plan, reports[rank]);
    });
  }
  size_t still = running.size();
  while (still > 0 && Clock::now() - begin < kLongest) {
    usleep(500);
    for (int rank = 0; rank < setup.size; ++rank) {
      run::Child& process = running[static_cast<size_t>(rank)];
      if (!process.is_there() || !process.has_ended()) continue;
      outcome.trouble += trouble_of(rank, reports[rank], process.reap(), rank == setup.victim());
      --still;
    }
  }
  for (int rank = 0; rank < setup.size; ++rank) {
    const run::Child& process = running[static_cast<size_t>(rank)];
    if (process.is_there()) outcome.trouble += "rank " + std::to_string(rank) + " hangs; ";
    process.send(SIGSTOP);
  }
  for (run::Child& process : running) {
    if (process.is_there()) show_stacks(process.id());
    process.end();
  }
  for (int rank = 0; rank < setup.size; ++rank) {
    if (reports[rank].result != BANYAN_SUCCESS) outcome.errors += in_words(rank, reports[rank]) + "; ";
  }
  outcome.faulty = reports[setup.rank];
  outcome.took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  return outcome;
}

// ---- All runs ----

constexpr const char* kKinds[] = {"allocation", "call"};
constexpr const char* kThreads[] = {"main", "agent", "progress", "other"};

struct Wish {
  Setup setup;
  std::optional<FaultKind> kind;
  std::optional<FaultThread> thread;
  bool all_after = false, shows = false;
  uint32_t from = 1, to = UINT32_MAX;
  size_t sample = 0;
  uint64_t seed = std::random_device()();
};

struct Tally {
  size_t runs = 0, fired = 0, failed = 0, troubles = 0;
  std::chrono::milliseconds longest{0};
};

void run_all_of(const Wish& wish, FaultPlan plan, uint32_t count, Tally& tally) {
  std::vector<uint32_t> numbers;
  for (uint32_t number = wish.from; number <= std::min(count, wish.to); ++number) numbers.push_back(number);
  if (wish.sample > 0 && numbers.size() > wish.sample) {
    std::mt19937_64 random(wish.seed);
    std::shuffle(numbers.begin(), numbers.end(), random);
    numbers.resize(wish.sample);
  }
  for (const uint32_t number : numbers) {
    plan.number = number;
    const Outcome outcome = run_once(wish.setup, plan);
    ++tally.runs;
    tally.fired += outcome.faulty.fired > 0 ? 1 : 0;
    tally.failed += outcome.errors.empty() ? 0 : 1;
    tally.longest = std::max(tally.longest, outcome.took);
    if (wish.shows) {
      printf("%u: %s failed; %s%ld ms\n", number, outcome.faulty.failed, outcome.errors.c_str(),
             static_cast<long>(outcome.took.count()));
    }
    if (outcome.trouble.empty()) continue;
    ++tally.troubles;
    printf("FAILED --transport %s --size %d --rank %d --kind %s --thread %s --from %u --to %u%s --show  # %s(%s; %s)\n",
           wish.setup.transport.c_str(), wish.setup.size, wish.setup.rank, kKinds[static_cast<int>(plan.kind)],
           kThreads[static_cast<int>(plan.thread)], number, number, plan.all_after ? " --after" : "",
           outcome.trouble.c_str(), outcome.faulty.failed, outcome.errors.c_str());
    fflush(stdout);
  }
}

// OpenSSL crashes itself where memory is short when it is used for the first time.
void use_openssl() {
  unsigned char byte = 0;
  auto* const random = of_faults<int(unsigned char*, int)>("RAND_bytes");
  if (random != nullptr) random(&byte, 1);
}

int run_all(const Wish& wish) {
  use_openssl();
  if (wish.sample > 0) printf("--seed %llu\n", static_cast<unsigned long long>(wish.seed));
  const Outcome clean = run_once(wish.setup, {});
  if (!clean.trouble.empty() || !clean.errors.empty()) {
    printf("without a fault: %s%s\n", clean.trouble.c_str(), clean.errors.c_str());
    return 1;
  }
  size_t troubles = 0;
  for (int kind = 0; kind < kFaultKinds; ++kind) {
    if (wish.kind && static_cast<int>(*wish.kind) != kind) continue;
    for (int thread = 0; thread < kFaultThreads; ++thread) {
      if (wish.thread && static_cast<int>(*wish.thread) != thread) continue;
      const uint32_t count = clean.faulty.counts[kind][thread];
      Tally tally;
      run_all_of(wish,
                 {.kind = static_cast<FaultKind>(kind),
                  .thread = static_cast<FaultThread>(thread),
                  .number = 0,
                  .all_after = wish.all_after,
                  .shows_stack = wish.shows},
                 wish.to < UINT32_MAX ? wish.to : count, tally);
      printf(
          "%s, %d ranks, rank %d, thread %s: %u %ss; %zu runs, %zu with a fault, %zu with an error, %zu wrong; the "
          "longest took %ld ms\n",
          wish.setup.transport.c_str(), wish.setup.size, wish.setup.rank, kThreads[thread], count, kKinds[kind],
          tally.runs, tally.fired, tally.failed, tally.troubles, static_cast<long>(tally.longest.count()));
      fflush(stdout);
      troubles += tally.troubles;
    }
  }
  return troubles == 0 ? 0 : 1;
}

}  // namespace
}  // namespace banyan::c

int main(int count, char** arguments) {
  if (dlsym(RTLD_DEFAULT, "banyan_faults_begin") == nullptr) {
    CHECK(getenv("LD_PRELOAD") == nullptr) << BANYAN_TEST_FAULTS << " was not loaded";
    setenv("LD_PRELOAD", BANYAN_TEST_FAULTS, 1);
    execv("/proc/self/exe", arguments);
    CHECK(false) << "exec";
  }
  using namespace banyan::c;
  Wish wish;
  CLI::App app("Runs ranks of which one allocation or system call after the other fails.");
  app.add_option("--transport", wish.setup.transport);
  app.add_option("--size", wish.setup.size)->check(CLI::Range(2, kMostRanks));
  app.add_option("--rank", wish.setup.rank)->check(CLI::Range(0, kMostRanks - 1));
  app.add_option("--kind", wish.kind)->transform(CLI::CheckedTransformer(by_name<FaultKind>(kKinds)));
  app.add_option("--thread", wish.thread)->transform(CLI::CheckedTransformer(by_name<FaultThread>(kThreads)));
  app.add_flag("--after", wish.all_after);
  app.add_option("--from", wish.from);
  app.add_option("--to", wish.to);
  app.add_option("--sample", wish.sample);
  app.add_option("--seed", wish.seed);
  app.add_flag("--show", wish.shows);
  CLI11_PARSE(app, count, arguments);
  CHECK(wish.setup.rank < wish.setup.size) << "ranks";
  return run_all(wish);
}
