// banyan bench: how fast collectives are here, and whether they are right, in the columns of nccl-tests.
#include <banyan/banyan.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "apps/bench/bench_cases.h"
#include "apps/bench/bench_measure.h"
#include "apps/bench/bench_table.h"
#include "apps/command.h"
#include "apps/lists.h"
#include "apps/option_values.h"
#include "apps/report.h"
#include "apps/run/launch_plan.h"
#include "apps/run/launcher.h"
#include "banyan/base/file.h"
#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/run/join/environment.h"
#include "banyan/run/join/free_port.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxProcesses = 256;

// The words by which this process was started.
std::vector<std::string> own_command_line() {
  const std::string text = read_file("/proc/self/cmdline");
  std::vector<std::string> words;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    words.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  words.front() = std::filesystem::read_symlink("/proc/self/exe").string();
  return words;
}

class BenchCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("bench", "Measure and check collectives, as nccl-tests does.");
    cases_.declare_kinds(command);
    command.group("Ranks");
    command.option("-g,--processes", count_into(processes_, {.least = 1, .most = kMaxProcesses}), "RANKS",
                   "processes to start on this machine (default 2; none when a launcher has started this one)");
    cases_.declare(command);
    declare_measurement(command);
    output_.declare(command);
    command.examples({"banyan bench allreduce -g 4",
                      "banyan bench all_reduce_perf -b 8 -e 128M -f 2 -g 2   # as nccl-tests",
                      "banyan bench allgather,broadcast -g 4 --sizes 4KiB,1MiB --type float16 --memory registered",
                      "banyan bench allreduce --csv ours.csv --plot curve.svg --against older.csv",
                      "mpirun -n 4 banyan bench reduce-scatter --op all",
                      "banyan lab run --no-prefix -- banyan bench allreduce --codec none,int8,int4",
                      "banyan lab run --no-prefix -- banyan bench allreduce --sizes 64MiB"});
    command.notes(
        {"Starts -g processes on this machine, at most 256, or joins those of a launcher (torchrun, srun, mpirun, "
         "banyan run, "
         "banyan "
         "lab run). The letters -b -e -f -i -n -w -c -o -d -r -g mean what they mean in nccl-tests, and so do sizes, "
         "algbw and busbw: the larger of what a rank sends and receives, over the time of the slowest rank. The time "
         "is "
         "the median of five blocks of calls. Every case is checked first, on data that depends on rank and "
         "position."});
    command.exit_codes({{"0", "all is right"}, {"1", "elements are wrong"}, {"2", "bad input"}});
    command.environment(runtime_variables());
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    cases_.check();
    options_.in_place = !only_out_of_place_;
    options_.out_of_place = !only_in_place_;
    output_.check();
    if (!invitation_from(run::Surroundings::real())) return start_ranks(terminal);
    banyan_comm_t comm = nullptr;
    if (banyan_comm_init_env(&comm, nullptr) != BANYAN_SUCCESS) {
      throw Error(ErrorCode::aborted, banyan_last_error(nullptr));
    }
    const ExitCode code = measure(terminal, comm);
    banyan_comm_destroy(comm);
    return code;
  }

 private:
  void declare_measurement(CommandSyntax& command) {
    const auto take_memory = [this](const std::string& text) {
      if (text != "ordinary" && text != "registered") {
        throw invalid(in_quotes(text) + " is neither ordinary nor registered");
      }
      options_.is_registered = text == "registered";
    };
    command
        .option("--memory", take_memory, "KIND",
                "ordinary, or registered: buffers of banyan_mem_alloc, which peers read directly")
        .values = {"ordinary", "registered"};
    command.flag("--in-place", only_in_place_, "measure only in place");
    command.flag("--out-of-place", only_out_of_place_, "measure only out of place").excludes = {"--in-place"};
    command.group("Measurement");
    command.option("-w,--warmup", count_into(options_.warmup, {.least = 0, .most = 1'000'000}), "TIMES",
                   "calls before a measurement (default 5)");
    command.option("-n,--iterations", count_into(options_.iterations, {.least = 1, .most = 1'000'000'000}), "TIMES",
                   "measured calls of a case (default: by --min-seconds)");
    const auto parse_seconds = [](const std::string& text) { return parse_bench_real(text, 0); };
    command
        .option("--min-seconds", into(options_.min_seconds, parse_seconds), "SECONDS",
                "measured time of a case (default 0.1)")
        .excludes = {"--iterations"};
    command.option("-c,--check", count_into(options_.checks, {.least = 0, .most = 1'000'000}), "TIMES",
                   "check results so many times, 0 for never (default 1)");
  }

  // The same command again, once for each rank.
  ExitCode start_ranks(const Terminal& terminal) const {
    const LaunchRequest request{
        .program = own_command_line(), .hosts = {}, .processes = processes_, .port = run::free_port(1)};
    return static_cast<ExitCode>(launch(plan_launch(request), run::Secret::random(), {}, terminal));
  }

  ExitCode measure(const Terminal& terminal, banyan_comm_t comm) const {
    BenchRunner runner(comm, options_);
    const bool prints = runner.rank() == 0, prints_table = prints && output_.has_table();
    const std::string who = describe_ranks(comm, runner);
    if (prints_table) terminal.print(who);
    std::vector<BenchRow> rows;
    const BenchKind* last = nullptr;
    const std::vector<BenchCase> all = cases_.all(runner.ranks());
    for (const BenchCase& each : all) {
      if (prints_table && (last == nullptr || *last != each.kind)) {
        terminal.print("#\n# " + std::string(bench_traits(each.kind).name) + "\n#\n" + bench_heads());
      }
      last = &each.kind;
      if (prints) {
        terminal.transient(std::string(bench_traits(each.kind).name) + " of " +
                           Bytes(each.bytes(runner.ranks())).to_string() + ", case " + std::to_string(rows.size() + 1) +
                           " of " + std::to_string(all.size()));
      }
      rows.push_back(runner.measure(each));
      if (prints) terminal.transient("");
      if (prints_table) terminal.print(format_bench_row(rows.back()));
    }
    if (prints_table) terminal.print(format_bench_end(rows));
    if (prints) {
      output_.write(terminal, {.rows = rows, .kinds = cases_.kinds(), .ranks = runner.ranks(), .ranks_in_words = who});
    }
    return wrong_elements(rows) == 0 ? ExitCode::success : ExitCode::answer_is_no;
  }

  static std::string describe_ranks(banyan_comm_t comm, const BenchRunner& runner) {
    struct Place {
      int32_t pid = 0;
      std::array<char, 60> host{};
    };
    Place own{.pid = static_cast<int32_t>(getpid())};
    gethostname(own.host.data(), own.host.size() - 1);
    std::vector<Place> places(runner.ranks());
    if (banyan_all_gather(&own, places.data(), sizeof own, BANYAN_UINT8, comm, nullptr) != BANYAN_SUCCESS) {
      throw Error(ErrorCode::aborted, banyan_last_error(comm));
    }
    const int version = banyan_get_version();
    std::string text = "# banyan " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
                       std::to_string(version % 100) + ", " + plural(runner.ranks(), "rank") + "\n";
    for (uint32_t rank = 0; rank < runner.ranks(); ++rank) {
      text += "#  Rank " + std::to_string(rank) + " Pid " + std::to_string(places[rank].pid) + " on " +
              places[rank].host.data() + "\n";
    }
    return text;
  }

  BenchCases cases_;
  BenchOptions options_;
  BenchOutput output_;
  uint32_t processes_ = 2;
  bool only_in_place_ = false, only_out_of_place_ = false;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace banyan::app
