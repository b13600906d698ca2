// banyan bench: how fast collectives are here, and whether they are right, in the columns of nccl-tests.
#include <banyan/banyan.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <set>

#include "apps/bench/bench_measure.h"
#include "apps/bench/bench_table.h"
#include "apps/command.h"
#include "apps/lists.h"
#include "apps/report.h"
#include "apps/run/launch_plan.h"
#include "apps/run/launcher.h"
#include "banyan/base/file.h"
#include "banyan/base/plain_text.h"
#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/run/join/environment.h"
#include "banyan/run/join/free_port.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxProcesses = 256;
constexpr size_t kMaxSizes = 1000;
constexpr uint32_t kDefaultProcesses = 2;

struct BenchTexts {
  std::string kinds = "allreduce", processes, least = "4", most = "64MiB", step, factor = "4", sizes, types = "float32",
              ops = "sum", codecs = "none", roots = "0", warmup = "5", iterations, checks = "1", seconds = "0.1",
              memory = "ordinary", output, csv, plot, axis = "busbw";
  std::vector<std::string> against;
  bool only_in_place = false, only_out_of_place = false, json = false;
};

// Each `factor` times the one before, or `step` more where that is not 0.
std::vector<uint64_t> sizes_between(uint64_t least, uint64_t most, double factor, uint64_t step) {
  std::vector<uint64_t> sizes;
  const auto next = [&](double size) {
    return step != 0 ? size + static_cast<double>(step) : std::max(size * factor, size + 1);
  };
  for (double size = static_cast<double>(least); size <= static_cast<double>(most); size = next(size)) {
    if (sizes.size() == kMaxSizes) {
      throw Error(ErrorCode::invalid_input,
                  "these are more than " + std::to_string(kMaxSizes) + " sizes; take a larger step",
                  step != 0 ? "--step-bytes" : "--step-factor");
    }
    sizes.push_back(static_cast<uint64_t>(size));
  }
  return sizes;
}

double parse_real(const std::string& text, const char* option, double least) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value < least) {
    throw Error(ErrorCode::invalid_input, "'" + text + "' is no number of at least " + format_decimals(least, 2),
                option);
  }
  return value;
}

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
    OptionSyntax& kinds =
        command.word("COLLECTIVE", &texts_.kinds,
                     "allreduce, reduce, broadcast, allgather, reduce-scatter, all-to-all, gather, scatter, sendrecv, "
                     "barrier; several with commas, or all (default allreduce)");
    command.group("Ranks");
    command.option("-g,--processes", &texts_.processes, "RANKS",
                   "processes to start on this machine (default 2; none when a launcher has started this one)");
    command.group("Sizes");
    command.option("-b,--min-bytes", &texts_.least, "SIZE", "first size (default 4)");
    command.option("-e,--max-bytes", &texts_.most, "SIZE", "last size (default 64MiB)");
    command.option("-f,--step-factor", &texts_.factor, "FACTOR", "from each size to the next (default 4)");
    command.option("-i,--step-bytes", &texts_.step, "SIZE", "from each size to the next, added").excludes = {
        "--step-factor"};
    command.option("--sizes", &texts_.sizes, "LIST", "these sizes instead, with commas").excludes = {
        "--min-bytes", "--max-bytes", "--step-factor", "--step-bytes"};
    command.group("Cases");
    OptionSyntax& types =
        command.option("-d,--type", &texts_.types, "LIST",
                       "int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, or all (default float32)");
    OptionSyntax& ops =
        command.option("-o,--op", &texts_.ops, "LIST",
                       "sum, prod, min, max, avg; of integers also band, bor, bxor; or all (default sum)");
    for (const BenchKind kind : all_bench_kinds()) kinds.values.emplace_back(bench_traits(kind).name);
    types.values = element_types();
    ops.values = reductions();
    for (OptionSyntax* const list : {&kinds, &types, &ops}) {
      list->values.emplace_back("all");
      list->is_list = true;
    }
    OptionSyntax& codecs =
        command.option("--codec", &texts_.codecs, "LIST",
                       "codes in which float32 goes between hosts, such as int8; none for none (default none)");
    codecs.values = codec_names();
    codecs.values.emplace_back("none");
    codecs.is_list = true;
    command.option("-r,--root", &texts_.roots, "LIST",
                   "root ranks of the collectives that have one, or all (default 0)");
    command
        .option("--memory", &texts_.memory, "KIND",
                "ordinary, or registered: buffers of banyan_mem_alloc, which peers read directly")
        .values = {"ordinary", "registered"};
    command.flag("--in-place", texts_.only_in_place, "measure only in place");
    command.flag("--out-of-place", texts_.only_out_of_place, "measure only out of place").excludes = {"--in-place"};
    command.group("Measurement");
    command.option("-w,--warmup", &texts_.warmup, "TIMES", "calls before a measurement (default 5)");
    command.option("-n,--iterations", &texts_.iterations, "TIMES",
                   "measured calls of a case (default: by --min-seconds)");
    command.option("--min-seconds", &texts_.seconds, "SECONDS", "measured time of a case (default 0.1)").excludes = {
        "--iterations"};
    command.option("-c,--check", &texts_.checks, "TIMES", "check results so many times, 0 for never (default 1)");
    command.group("Output");
    command.flag("--json", texts_.json, "print one JSON object instead of the table");
    command.option("--output", &texts_.output, "FILE", "write all figures as JSON");
    command.option("--csv", &texts_.csv, "FILE", "write all figures as CSV");
    command.option("--plot", &texts_.plot, "FILE", "draw the curves as SVG");
    command.option("--axis", &texts_.axis, "WHAT", "of the picture: busbw or time (default busbw)").values = {"busbw",
                                                                                                              "time"};
    command.option("--against", &texts_.against, "FILE", "draw these curves, too: CSV files of earlier runs")
        .takes_rest = true;
    command.examples({"banyan bench allreduce -g 4",
                      "banyan bench all_reduce_perf -b 8 -e 128M -f 2 -g 2   # as nccl-tests",
                      "banyan bench allgather,broadcast -g 4 --sizes 4KiB,1MiB --type float16 --memory registered",
                      "banyan bench allreduce --csv ours.csv --plot curve.svg --against older.csv",
                      "mpirun -n 4 banyan bench reduce-scatter --op all",
                      "banyan lab run --no-prefix -- banyan bench allreduce --codec none,int8,int4",
                      "banyan lab run --no-prefix -- banyan bench allreduce --sizes 64MiB"});
    command.notes(
        {"Starts -g processes on this machine, or joins those of a launcher (torchrun, srun, mpirun, banyan run, "
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
    read_options();
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
  void read_options() {
    kinds_ = read_list<BenchKind>(texts_.kinds, "COLLECTIVE", parse_bench_kind, all_bench_kinds());
    std::vector<element::DataType> types;
    for (size_t i = 0; i < element::kDataTypes; ++i) types.push_back(static_cast<element::DataType>(i));
    types_ = read_list<element::DataType>(texts_.types, "--type", element::parse_data_type, types);
    read_ops();
    codecs_ = read_list<std::optional<codec::Codec>>(
        texts_.codecs, "--codec",
        [](std::string_view text) { return text == "none" ? std::nullopt : std::optional(codec::parse_codec(text)); },
        {});
    const auto bytes = [](std::string_view text) { return Bytes::parse(text).count(); };
    if (texts_.sizes.empty()) {
      const uint64_t least = parse_option("--min-bytes", [&] { return bytes(texts_.least); });
      const uint64_t most = parse_option("--max-bytes", [&] { return bytes(texts_.most); });
      if (most < least) {
        throw Error(ErrorCode::invalid_input, "is below --min-bytes, " + texts_.least, "--max-bytes");
      }
      uint64_t step = 0;
      if (!texts_.step.empty()) {
        step = parse_option("--step-bytes", [&] { return bytes(texts_.step); });
        if (step == 0) throw Error(ErrorCode::invalid_input, "is zero bytes; give a size such as 1MiB", "--step-bytes");
      }
      sizes_ = sizes_between(least, most, parse_real(texts_.factor, "--step-factor", 1), step);
    } else {
      sizes_ = read_list<uint64_t>(texts_.sizes, "--sizes", bytes, {});
    }
    options_.warmup = parse_count(texts_.warmup, "--warmup", {.least = 0, .most = 1'000'000});
    if (!texts_.iterations.empty()) {
      options_.iterations = parse_count(texts_.iterations, "--iterations", {.least = 1, .most = 1'000'000'000});
    }
    options_.min_seconds = parse_real(texts_.seconds, "--min-seconds", 0);
    options_.checks = parse_count(texts_.checks, "--check", {.least = 0, .most = 1'000'000});
    options_.in_place = !texts_.only_out_of_place;
    options_.out_of_place = !texts_.only_in_place;
    if (texts_.memory != "ordinary" && texts_.memory != "registered") {
      throw Error(ErrorCode::invalid_input, "'" + texts_.memory + "' is neither ordinary nor registered", "--memory");
    }
    options_.is_registered = texts_.memory == "registered";
    if (texts_.axis != "busbw" && texts_.axis != "time") {
      throw Error(ErrorCode::invalid_input, "'" + texts_.axis + "' is neither busbw nor time", "--axis");
    }
    for (const std::string& path : texts_.against) {
      const std::string name = std::filesystem::path(path).stem().string();
      for (picture::Curve& curve : read_bench_csv(read_plain_text(path).text, axis(), name))
        against_.push_back(std::move(curve));
    }
    for (const std::string& path : {texts_.csv, texts_.plot, texts_.output}) check_output_place(path, texts_.json);
  }

  // Of several types and ops, the pairs are measured that exist; but who names an op wants to see it.
  void read_ops() {
    ops_ = read_list<element::ReduceOp>(
        texts_.ops, "--op",
        [](std::string_view text) {
          const element::ReduceOp op = element::parse_reduce_op(text);
          if (op != element::ReduceOp::premul_sum) return op;
          throw Error(ErrorCode::unsupported, "premul_sum has a factor for each rank, which there is no way to give");
        },
        {element::ReduceOp::sum, element::ReduceOp::prod, element::ReduceOp::min, element::ReduceOp::max,
         element::ReduceOp::avg, element::ReduceOp::band, element::ReduceOp::bor, element::ReduceOp::bxor});
    if (texts_.ops == "all") return;
    for (const element::ReduceOp op : ops_) {
      const auto has_op = [op](element::DataType type) { return is_reducible(type, op); };
      if (std::any_of(types_.begin(), types_.end(), has_op)) continue;
      parse_option("--op", [&] { expect_reducible(types_.front(), op); });
    }
  }

  template <typename Item, typename Parse>
  static std::vector<Item> read_list(const std::string& text, const char* option, Parse parse, std::vector<Item> all) {
    if (text == "all" && !all.empty()) return all;
    std::vector<Item> items;
    for (const std::string& piece : split_list(text, option)) {
      items.push_back(parse_option(option, [&] { return parse(piece); }));
    }
    return items;
  }

  // The same command again, once for each rank.
  ExitCode start_ranks(const Terminal& terminal) const {
    LaunchRequest request{
        .program = own_command_line(), .hosts = {}, .processes = kDefaultProcesses, .port = run::free_port(1)};
    if (!texts_.processes.empty()) {
      request.processes =
          static_cast<uint32_t>(parse_count(texts_.processes, "--processes", {.least = 1, .most = kMaxProcesses}));
    }
    return static_cast<ExitCode>(launch(plan_launch(request), run::Secret::random(), {}, terminal));
  }

  std::vector<uint32_t> roots(uint32_t ranks) const {
    std::vector<uint32_t> all;
    for (uint32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
    return read_list<uint32_t>(
        texts_.roots, "--root",
        [&](const std::string& text) {
          return static_cast<uint32_t>(parse_count(text, "--root", {.least = 0, .most = ranks - 1}));
        },
        all);
  }

  std::vector<BenchCase> cases(uint32_t ranks) const {
    std::vector<BenchCase> all;
    for (const BenchKind kind : kinds_) {
      if (kind == CollectiveKind::barrier) {
        all.push_back({.kind = kind});
        continue;
      }
      for (const element::DataType type : types_) {
        for (const element::ReduceOp op :
             bench_traits(kind).reduces ? ops_ : std::vector<element::ReduceOp>{element::ReduceOp::sum}) {
          if (!is_reducible(type, op)) continue;
          for (const std::optional<codec::Codec>& codec : codecs_) {
            if (codec && !has_codes(kind, type, op)) continue;
            add_cases({.kind = kind, .type = type, .codec = codec, .op = op}, ranks, all);
          }
        }
      }
    }
    return all;
  }

  static bool has_codes(BenchKind kind, element::DataType type, element::ReduceOp op) {
    const bool is_summed = op == element::ReduceOp::sum || op == element::ReduceOp::avg;
    return kind != kSendRecv && type == element::DataType::float32 && is_summed;
  }

  // Of all roots and sizes.
  void add_cases(BenchCase what, uint32_t ranks, std::vector<BenchCase>& all) const {
    for (const uint32_t root : bench_traits(what.kind).is_rooted ? roots(ranks) : std::vector<uint32_t>{0}) {
      for (const uint64_t size : sizes_) {
        what.root = root;
        what.count = BenchCase::count_of(what.kind, what.type, size, ranks);
        all.push_back(what);
      }
    }
  }

  ExitCode measure(const Terminal& terminal, banyan_comm_t comm) const {
    BenchRunner runner(comm, options_);
    const bool prints = runner.rank() == 0, prints_table = prints && !texts_.json && !writes_to_standard_output();
    const std::string who = describe_ranks(comm, runner);
    if (prints_table) terminal.print(who);
    std::vector<BenchRow> rows;
    const BenchKind* last = nullptr;
    const std::vector<BenchCase> all = cases(runner.ranks());
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
    if (prints) write_files(terminal, rows, runner.ranks(), who);
    return wrong_elements(rows) == 0 ? ExitCode::success : ExitCode::answer_is_no;
  }

  bool writes_to_standard_output() const { return texts_.output == "-" || texts_.csv == "-" || texts_.plot == "-"; }

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

  void write_files(const Terminal& terminal, const std::vector<BenchRow>& rows, uint32_t ranks,
                   const std::string& who) const {
    if (texts_.json) terminal.print(format_bench_json(rows, ranks));
    if (!texts_.output.empty()) write_output(terminal, texts_.output, format_bench_json(rows, ranks));
    if (!texts_.csv.empty()) write_output(terminal, texts_.csv, format_bench_csv(rows, ranks));
    if (!texts_.plot.empty()) write_output(terminal, texts_.plot, picture::draw_curves(plot_of(rows, ranks, who)));
  }

  BenchAxis axis() const { return texts_.axis == "time" ? BenchAxis::time : BenchAxis::busbw; }

  // `who` begins with our version, and names the host of each rank.
  picture::CurvePlot plot_of(const std::vector<BenchRow>& rows, uint32_t ranks, const std::string& who) const {
    std::string kinds;
    for (const BenchKind kind : kinds_) kinds += std::string(bench_traits(kind).name) + ", ";
    std::set<std::string> hosts;
    for (size_t at = who.find(" on "); at != std::string::npos; at = who.find(" on ", at + 1)) {
      hosts.insert(who.substr(at + 4, who.find('\n', at) - at - 4));
    }
    const std::time_t now = std::time(nullptr);
    std::tm day{};
    gmtime_r(&now, &day);
    std::array<char, 32> date{};
    std::strftime(date.data(), date.size(), "%Y-%m-%d %H:%M UTC", &day);
    const std::string version = who.substr(2, who.find(',') - 2);
    std::vector<picture::Curve> curves = curves_of(rows, axis(), against_.empty() ? "" : "now: ");
    curves.insert(curves.end(), against_.begin(), against_.end());
    return {.title = (kinds_.size() > 3 ? plural(kinds_.size(), "collective") + ", " : kinds) + plural(ranks, "rank"),
            .subtitle = version + " on " + (hosts.size() == 1 ? *hosts.begin() : plural(hosts.size(), "host")) + ", " +
                        date.data(),
            .value = axis() == BenchAxis::busbw ? "bus bandwidth (GB/s)" : "time (us)",
            .curves = std::move(curves)};
  }

  BenchTexts texts_;
  std::vector<BenchKind> kinds_;
  std::vector<element::DataType> types_;
  std::vector<element::ReduceOp> ops_;
  std::vector<std::optional<codec::Codec>> codecs_;
  std::vector<uint64_t> sizes_;
  std::vector<picture::Curve> against_;
  BenchOptions options_;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace banyan::app
