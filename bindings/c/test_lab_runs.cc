// Runs small networks of this machine (lab/lab.h) again and again, and in each cuts and mends cables by chance while
// all ranks call. Who may fail, and whom an error may name, is computed from the network and from what was done to it
// (test_lab_oracle.h, test_lab_verdict.h). A run that is not as it must be is printed as a line that repeats it; times
// are the machine's, so it may take more than one try.
//
//   banyan_c_lab_runs [--mode cuts|resets|rejects|grey] [--topology ring|spines|star|mesh|chord|rails|host]
//       [--seed S | --from S --to S | --runs COUNT] [--parallel COUNT] [--show]
//
// --mode: what is done (test_lab_events.h); cuts unless it is said. Without --topology it follows from the seed. --runs
// takes seeds by chance. --parallel sets up so many labs at a time. --show prints what each run was and how its ranks
// ended. Logs and flight records of what fails are kept in a folder that is printed.
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/shared_among_processes.h"
#include "bindings/c/test_lab_run.h"
#include "bindings/c/test_options.h"

namespace banyan::c {
namespace {

using Clock = std::chrono::steady_clock;

// A run watches over its ranks itself; somebody must watch over it.
constexpr std::chrono::seconds kLongest{600};
constexpr const char* kOutcomes[] = {"went on", "cut off", "unclear", "machine stood still", "FAILED"};
static_assert(std::size(kOutcomes) == kLabOutcomes);

volatile sig_atomic_t is_stopped = 0;

struct Wish {
  LabMode mode = LabMode::cuts;
  std::optional<std::string> topology;
  uint64_t from = 1, to = 1;
  size_t parallel = 1;
  bool shows = false;
};

// What the process of a run leaves for the one that has started it.
struct Result {
  bool is_there;
  LabOutcome outcome;
  bool had_to_go_on;
  char text[8000];
};

struct Running {
  run::Child process{};
  uint64_t seed = 0;
  const LabTopology* topology = nullptr;
  std::string name = {}, folder = {};
  Clock::time_point begin = Clock::now();
  std::unique_ptr<testing::SharedAmongProcesses<Result>> shared =
      std::make_unique<testing::SharedAmongProcesses<Result>>();

  Result& result() const { return **shared; }
};

struct Tally {
  size_t runs = 0, had_to_go_on = 0;
  std::array<size_t, kLabOutcomes> outcomes{};

  void add(const Tally& other) {
    runs += other.runs;
    had_to_go_on += other.had_to_go_on;
    for (size_t i = 0; i < outcomes.size(); ++i) outcomes[i] += other.outcomes[i];
  }
  void print(const char* name) const {
    printf(
        "%s: %zu runs: %zu went on (%zu had to), %zu cut off, %zu unclear, %zu while the machine stood still, %zu "
        "FAILED\n",
        name, runs, outcomes[0], had_to_go_on, outcomes[1], outcomes[2], outcomes[3], outcomes[4]);
  }
  size_t failed() const { return outcomes[static_cast<size_t>(LabOutcome::failed)]; }
};

// Those that a mode makes sense on.
std::vector<const LabTopology*> topologies_of(LabMode mode) {
  std::vector<const LabTopology*> all;
  for (const LabTopology& each : lab_topologies()) {
    if (mode != LabMode::grey || each.name == "spines") all.push_back(&each);
  }
  if (mode == LabMode::resets) all.push_back(&host_topology());
  return all;
}

const LabTopology& topology_of(const Wish& wish, uint64_t seed) {
  const std::vector<const LabTopology*> all = topologies_of(wish.mode);
  if (!wish.topology) return *all[seed % all.size()];
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto* each) { return each->name == *wish.topology; });
  CHECK(found != all.end()) << "no topology " << *wish.topology << " in this mode";
  return **found;
}

class Runs {
 public:
  explicit Runs(const Wish& wish) : wish_(wish), next_(wish.from) {}

  // How many have failed.
  size_t run() {
    while (is_stopped == 0 && (next_ <= wish_.to || !running_.empty())) {
      while (next_ <= wish_.to && running_.size() < wish_.parallel) start(next_++);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      look_after_all();
    }
    for (Running& each : running_) {  // when it was stopped
      clear_away(each);
      std::filesystem::remove_all(each.folder);
    }
    Tally all;
    for (const auto& [name, tally] : tallies_) {
      if (tallies_.size() > 1) tally.print(name.c_str());
      all.add(tally);
    }
    all.print(kLabModes[static_cast<int>(wish_.mode)]);
    return all.failed();
  }

 private:
  void start(uint64_t seed) {
    Running run{.seed = seed, .topology = &topology_of(wish_, seed)};
    run.name = "r" + std::to_string(getpid()) + "-" + std::to_string(seed % 1'000'000);
    run.folder = std::filesystem::temp_directory_path() / "banyan-labs-XXXXXX";
    CHECK(mkdtemp(run.folder.data()) != nullptr) << run.folder;
    fflush(stdout);  // or the process would write what is kept for it, too
    run.process = run::Child([&]() -> int { be(run); });
    running_.push_back(std::move(run));
  }

  [[noreturn]] void be(const Running& run) const {
    signal(SIGINT, SIG_IGN);  // whoever has started this process ends it
    try {
      const LabStory story = run_in_lab(
          {.topology = *run.topology, .mode = wish_.mode, .seed = run.seed, .name = run.name, .folder = run.folder});
      snprintf(run.result().text, sizeof run.result().text, "%s# %s", story.verdict.why.c_str(), story.told.c_str());
      run.result().outcome = story.verdict.outcome;
      run.result().had_to_go_on = story.verdict.had_to_go_on;
      run.result().is_there = true;
    } catch (...) {
      fprintf(stderr, "%s\n", current_error().what());
    }
    _exit(0);
  }

  void look_after_all() {
    for (auto run = running_.begin(); run != running_.end();) {
      const bool has_ended = run->process.has_ended();
      if (!has_ended && Clock::now() - run->begin < kLongest) {
        ++run;
        continue;
      }
      if (!has_ended || !run->result().is_there) clear_away(*run);
      count(*run);
      run = running_.erase(run);
    }
  }

  static void clear_away(Running& run) {
    run.process.end();
    try {
      end_lab(run.name);
    } catch (...) {
      fprintf(stderr, "%s\n", current_error().what());
    }
  }

  void count(const Running& run) {
    const Result& result = run.result();
    const LabOutcome outcome = result.is_there ? result.outcome : LabOutcome::failed;
    Tally& tally = tallies_[run.topology->name];
    ++tally.runs;
    tally.had_to_go_on += result.had_to_go_on ? 1 : 0;
    ++tally.outcomes[static_cast<size_t>(outcome)];
    const bool is_well = outcome != LabOutcome::failed && outcome != LabOutcome::withheld;
    if (!is_well || wish_.shows) {
      printf("%s --mode %s --topology %s --seed %llu --show  # %s%s%s\n", kOutcomes[static_cast<size_t>(outcome)],
             kLabModes[static_cast<int>(wish_.mode)], run.topology->name.c_str(),
             static_cast<unsigned long long>(run.seed), result.is_there ? result.text : "the run itself did not end; ",
             is_well ? "" : "see ", is_well ? "" : run.folder.c_str());
      fflush(stdout);
    }
    if (is_well) std::filesystem::remove_all(run.folder);
  }

  const Wish wish_;
  uint64_t next_;
  std::vector<Running> running_;
  std::map<std::string, Tally> tallies_;
};

int run_all(const Wish& wish) {
  if (const std::string reason = why_no_lab_run(wish.mode); !reason.empty()) {
    printf("skipped: %s\n", reason.c_str());
    return 0;
  }
  struct sigaction action = {};
  action.sa_handler = [](int) { is_stopped = 1; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  printf("--mode %s --from %llu --to %llu\n", kLabModes[static_cast<int>(wish.mode)],
         static_cast<unsigned long long>(wish.from), static_cast<unsigned long long>(wish.to));
  return Runs(wish).run() == 0 && is_stopped == 0 ? 0 : 1;
}

}  // namespace
}  // namespace banyan::c

int main(int count, char** arguments) {
  using namespace banyan::c;
  Wish wish;
  std::optional<uint64_t> seed, runs;
  CLI::App app("Runs ranks in small networks of this machine while cables are cut.");
  app.add_option("--mode", wish.mode)->transform(CLI::CheckedTransformer(by_name<LabMode>(kLabModes)));
  app.add_option("--topology", wish.topology);
  app.add_option("--seed", seed);
  app.add_option("--from", wish.from);
  app.add_option("--to", wish.to);
  app.add_option("--runs", runs);
  app.add_option("--parallel", wish.parallel);
  app.add_flag("--show", wish.shows);
  CLI11_PARSE(app, count, arguments);
  if (runs) wish.from = std::random_device()();
  if (runs) wish.to = wish.from + *runs - 1;
  if (seed) wish.from = wish.to = *seed;
  CHECK(wish.parallel > 0 && wish.from <= wish.to);
  return run_all(wish);
}
