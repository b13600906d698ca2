// banyan run: one process per rank on this machine, real bytes along the planned trees, a checked answer. Or, after
// "--", a program of the user, once for each rank.
#include <nlohmann/json.hpp>

#include "apps/collective_option.h"
#include "apps/command.h"
#include "apps/fabric_option.h"
#include "apps/lists.h"
#include "apps/option_values.h"
#include "apps/plan/plan_progress.h"
#include "apps/predict/run_prediction.h"
#include "apps/report.h"
#include "apps/run/launch_option.h"
#include "banyan/answer/plan_answer.h"
#include "banyan/answer/plan_check.h"
#include "banyan/answer/timed_plan.h"
#include "banyan/base/text.h"
#include "banyan/fabric/powers.h"
#include "banyan/run/trial/local.h"

namespace banyan::app {
namespace {

// More processes than this are a typing error on one machine, and would bring it down.
constexpr size_t kMaxProcesses = 256;
constexpr uint64_t kMaxRepeats = 1'000'000;
constexpr uint64_t kMaxTimeoutSeconds = 86'400;
constexpr size_t kDefaultProcesses = 4;

struct RunArguments {
  std::string plan, processes, bytes = "16MiB", slice;
  run::LocalRunOptions options{.transport = run::parse_transport("shm")};
  Picoseconds alpha = answer::TimingOptions().alpha;
  bool predict = false, json = false;
};

struct Prepared {
  Schedule schedule;
  std::string name;                // of the fabric or the plan
  std::optional<bool> is_optimal;  // known for what was planned here
};

class RunCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command =
        program.command("run", "Execute a plan on processes of this machine and check the result, or start a program.");
    syntax_ = &command;
    collective_.declare(command);  // a program may come instead
    command.option("-n,--processes", &arguments_.processes, "RANKS",
                   "number of processes (default: all ranks of the fabric, or 4)");
    command.option("--bytes", &arguments_.bytes, "SIZE",
                   "size of the whole buffer, gathered or reduced (default 16MiB)");
    command
        .option("--type", into(arguments_.options.type, element::parse_data_type), "TYPE",
                "int8 to int64, uint8 to uint64, float16, bfloat16, float32 or float64 (default float32)")
        .values = element_types();
    const auto parse_op = [this](const std::string& text) {
      const element::ReduceOp op = element::parse_reduce_op(text);
      expect_reducible(arguments_.options.type, op);  // which was read before
      return op;
    };
    command
        .option("--op", into(arguments_.options.op, parse_op), "OP",
                "sum, prod, min, max, avg, premul_sum; of integers also band, bor or bxor (default sum)")
        .values = reductions();
    command
        .option("--transport", into(arguments_.options.transport, run::parse_transport), "KIND",
                "shm or tcp (default shm)")
        .values = {"shm", "tcp"};
    command.option("--slice", &arguments_.slice, "SIZE", "piece that moves at once along a tree (default 128KiB)");
    command.option("--repeat", count_into(arguments_.options.repeats, {.most = kMaxRepeats}), "TIMES",
                   "timed executions, after one that is checked (default 5)");
    const auto parse_seconds = [](const std::string& text) {
      return std::chrono::seconds(parse_count(text, "", {.most = kMaxTimeoutSeconds}));
    };
    command.option("--timeout", into(arguments_.options.timeout, parse_seconds), "SECONDS",
                   "give up after this time (default 60)");
    command.option("--plan", &arguments_.plan, "FILE", "execute this plan instead of planning one").excludes = {
        "--fabric"};
    command.flag("--predict", arguments_.predict,
                 "show the simulated time and bytes on each link beside the measured ones");
    command
        .option("--alpha", into(arguments_.alpha, parse_duration), "TIME",
                "cost of a message besides its bytes, for --predict (default 5us)")
        .needs = "--predict";
    command.flag("--json", arguments_.json, "print one JSON object");
    fabric_.declare(command, "--fabric", FabricOption::Place::optional);
    launch_.declare(command);
    command.examples({"banyan run allreduce -n 4 --bytes 16MiB",
                      "banyan run allgather --fabric dgx-h100:1 --bytes 64MB --transport tcp",
                      "banyan run broadcast --fabric torus:3x3 --root 4 --type float64 --repeat 20 --json",
                      "banyan run --plan plan.json --bytes 4MiB --op max",
                      "banyan run allreduce --fabric torus:3x3 --predict --alpha 2us",
                      "banyan run all-to-all --fabric torus:2x4 --bytes 1MiB --predict",
                      "banyan run -n 4 -- ./program --its-option",
                      "banyan run --hosts node0:2,node1:2 --prefix -- python3 train.py"});
    command.notes(
        {"A collective: the fabric gives the shape of the trees. The bytes move through the memory or the loopback of "
         "this machine, so the measured times are those of this machine; only the bytes on each link can be compared "
         "with a prediction for the fabric. With -n below the number of ranks of the fabric, the first n take part.",
         "A program: the words after -- are started once for each rank, with RANK, WORLD_SIZE, LOCAL_RANK, "
         "LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT and BANYAN_SECRET set. The others are ended as soon as one "
         "fails."});
    command.exit_codes({{"0", "every element is right; all programs have succeeded"},
                        {"1", "some elements are wrong"},
                        {"2", "bad input"},
                        {"N", "that of the first program that failed, or 128 + signal when it was killed"}});
    command.environment(runtime_variables());
    return command;
  }

  void take_program(std::vector<std::string> words) override {
    processes(1);  // of '-np 4' it says more than what follows
    if (syntax_->is_given("COLLECTIVE")) {
      throw invalid(in_quotes(collective_.text()) + " is one word too many before '--'");
    }
    for (const OptionSyntax& option : syntax_->options()) {
      const bool is_ours =
          option.group == LaunchOption::kGroup || option.name() == "--processes" || option.name() == "--json";
      if (!option.is_given() || is_ours) continue;
      throw Error(ErrorCode::invalid_input, "is for a collective, not for a program after '--'", option.name());
    }
    launch_.take_program(std::move(words));
  }

  ExitCode run(const Terminal& terminal) override {
    if (launch_.has_program()) return launch_.run(terminal, static_cast<uint32_t>(processes(1)), arguments_.json);
    for (const OptionSyntax& option : syntax_->options()) {
      if (!option.is_given() || option.group != LaunchOption::kGroup) continue;
      throw Error(ErrorCode::invalid_input, "is for a program, and there is none after '--'", option.name());
    }
    expect_collective();
    const run::LocalRunOptions options = run_options();
    std::optional<Prepared> prepared;
    {
      Progress progress(terminal, "planning");
      prepared = arguments_.plan.empty() ? plan_here(progress) : read_plan();
    }
    run::LocalRunReport report;
    {
      Progress progress(terminal, "running");
      report = run_locally(prepared->schedule, options);
    }
    std::optional<RunPrediction> prediction;
    if (arguments_.predict) {
      Progress progress(terminal, "simulating");
      prediction = predict_run(prepared->schedule, bytes_moved(options, report), report, arguments_.alpha, progress);
    }
    const Executed executed{.plan = *prepared, .options = options, .report = report, .prediction = prediction};
    terminal.print(arguments_.json ? as_json(executed) : as_text(terminal, executed));
    return report.wrong_elements == 0 ? ExitCode::success : ExitCode::answer_is_no;
  }

 private:
  // A plan says which it is for.
  void expect_collective() const {
    if (syntax_->is_given("COLLECTIVE")) {
      try {
        collective_.kind();
      } catch (const Error& error) {
        throw Error(error.code(),
                    error.message() + "; a program and its options go after '--': banyan run -n 4 -- PROGRAM");
      }
    } else if (arguments_.plan.empty()) {
      throw invalid("COLLECTIVE is required, or a program after '--'; see 'banyan run --help'");
    }
  }

  run::LocalRunOptions run_options() const {
    run::LocalRunOptions options = arguments_.options;
    options.total = parse_option("--bytes", [&] { return Bytes::parse(arguments_.bytes); });
    if (options.total.count() < size_of(options.type)) {
      throw Error(ErrorCode::invalid_input,
                  "'" + arguments_.bytes + "' holds no element of " + std::string(to_string(options.type)) +
                      "; give at least " + std::to_string(size_of(options.type)) + " bytes",
                  "--bytes");
    }
    if (!arguments_.slice.empty()) {
      options.slice = parse_option("--slice", [&] { return Bytes::parse(arguments_.slice); });
      if (options.slice.count() < size_of(options.type)) {
        throw Error(ErrorCode::invalid_input, "'" + arguments_.slice + "' holds no element; give a size such as 128KiB",
                    "--slice");
      }
    }
    return options;
  }

  // 0 when it is not said how many.
  size_t processes(uint64_t least = 2) const {
    return arguments_.processes.empty()
               ? 0
               : static_cast<size_t>(parse_count(arguments_.processes, "-n", {.least = least, .most = kMaxProcesses}));
  }

  static void require_few(size_t participants) {
    if (participants <= kMaxProcesses) return;
    throw Error(ErrorCode::unsupported, std::to_string(participants) +
                                            " ranks are too many processes for one machine; give -n of at most " +
                                            std::to_string(kMaxProcesses));
  }

  Prepared plan_here(Progress& progress) {
    const size_t wanted = processes();
    if (!fabric_.given()) {
      if (fabric_.any_edit()) throw invalid("edits such as --fail need the --fabric that they edit");
      fabric_.set_text("full:" + std::to_string(wanted == 0 ? kDefaultProcesses : wanted));
    }
    const Fabric fabric = fabric::without_powers(fabric_.load());  // processes stand in for no switch
    if (wanted > fabric.ranks().size()) {
      throw Error(ErrorCode::mismatch,
                  std::to_string(wanted) + " processes, but " + fabric_.text() + " has " +
                      plural(fabric.ranks().size(), "rank"),
                  "-n");
    }
    if (wanted != 0 && collective_.names_ranks()) {
      throw invalid("-n and --ranks both say who takes part; give one of them");
    }
    const Collective collective = collective_.make(fabric, wanted);
    require_few(collective.participants().size());
    PlanProgress watch(progress);
    answer::PlanAnswer answer = answer::make_plan(fabric, collective, {.observer = &watch});
    return {
        .schedule = std::move(answer.plan.schedule), .name = fabric_.described(), .is_optimal = answer.plan.optimal};
  }

  Prepared read_plan() const {
    if (fabric_.any_edit())
      throw Error(ErrorCode::invalid_input, "the plan has its fabric already; edits such as --fail are for --fabric",
                  "--plan");
    if (collective_.any_shape()) {
      throw Error(ErrorCode::invalid_input,
                  "the plan has its ranks, root, weights and traffic already; leave --ranks, --root, --weights and "
                  "--traffic out",
                  "--plan");
    }
    const size_t wanted = processes();
    schedule::ScheduleFile file = answer::read_valid_plan(arguments_.plan);
    const Collective& planned = file.schedule.collective();
    if (syntax_->is_given("COLLECTIVE") && planned.kind() != collective_.kind()) {
      throw Error(ErrorCode::mismatch,
                  "is a plan for " + std::string(to_string(planned.kind())) + ", not for " +
                      std::string(to_string(collective_.kind())),
                  arguments_.plan);
    }
    if (wanted != 0 && wanted != planned.participants().size()) {
      throw Error(ErrorCode::mismatch,
                  std::to_string(wanted) + " processes, but " + arguments_.plan + " is for " +
                      plural(planned.participants().size(), "rank"),
                  "-n");
    }
    require_few(planned.participants().size());
    return {.schedule = std::move(file.schedule), .name = arguments_.plan, .is_optimal = {}};
  }

  static uint64_t bytes_moved(const run::LocalRunOptions& options, const run::LocalRunReport& report) {
    return report.elements * size_of(options.type);
  }

  // As the user wrote it, unless it was rounded down to whole elements.
  std::string shown_bytes(const run::LocalRunOptions& options, const run::LocalRunReport& report) const {
    const uint64_t bytes = bytes_moved(options, report);
    const bool has_unit = arguments_.bytes.find_first_not_of("0123456789") != std::string::npos;
    return bytes == options.total.count() && has_unit ? arguments_.bytes : std::to_string(bytes) + " bytes";
  }

  static double algbw(const run::LocalRunOptions& options, const run::LocalRunReport& report) {
    return report.median_seconds > 0 ? static_cast<double>(bytes_moved(options, report)) / report.median_seconds * 1e-9
                                     : 0;
  }

  // A plan that was carried out, and what came of it.
  struct Executed {
    const Prepared& plan;
    const run::LocalRunOptions& options;
    const run::LocalRunReport& report;
    const std::optional<RunPrediction>& prediction;
  };

  static std::string as_json(const Executed& executed) {
    const auto& [prepared, options, report, prediction] = executed;
    const Collective& collective = prepared.schedule.collective();
    const size_t ranks = collective.participants().size();
    const schedule::Heights height = heights(prepared.schedule);
    Json object = {
        {"collective", to_string(collective.kind())},
        {"name", prepared.name},
        {"fabric", counts_json(prepared.schedule.fabric())},
        {"processes", ranks},
        {"bytes", bytes_moved(options, report)},
        {"elements", report.elements},
        {"type", to_string(options.type)},
        {"op", to_string(options.op)},
        {"transport", to_string(options.transport)},
        {"schedule",
         {{"trees", prepared.schedule.chunk_count()}, {"height_max", height.max}, {"height_mean", height.mean}}},
        {"correct", report.wrong_elements == 0},
        {"wrong_elements", report.wrong_elements},
        {"first_wrong", report.first_wrong.empty() ? Json(nullptr) : Json(report.first_wrong)},
        {"bytes_sent", report.bytes_sent},
        {"repeats", options.repeats},
        {"seconds", {{"median", report.median_seconds}, {"min", report.min_seconds}}},
        {"algbw_GBps", algbw(options, report)},
        {"busbw_GBps", algbw(options, report) * busbw_factor(collective.kind(), ranks)}};
    if (prediction) {
      object["predicted"] = run_prediction_json(prepared.schedule.fabric(), report, *prediction);
    }
    return format_json(object);
  }

  std::string as_text(const Terminal& terminal, const Executed& executed) const {
    const auto& [prepared, options, report, prediction] = executed;
    const Collective& collective = prepared.schedule.collective();
    const size_t ranks = collective.participants().size();
    const bool right = report.wrong_elements == 0;
    std::string what = "of " + shown_bytes(options, report) + " of " + std::string(to_string(options.type));
    if (collective.reduces()) what += " (" + std::string(to_string(options.op)) + ")";
    what += " on " + plural(ranks, "process") + " over " + std::string(to_string(options.transport));
    std::string text = labelled(terminal, std::string(to_string(collective.kind())), what);
    text += labelled(terminal, "plan",
                     prepared.name + ": " + plural(prepared.schedule.chunk_count(), "tree") + ", height " +
                         std::to_string(heights(prepared.schedule).max) +
                         (prepared.is_optimal.value_or(false) ? ", optimal" : "") + ", verified");
    const std::string check =
        right ? "every element is right on every rank (" + std::to_string(report.elements) + " each)"
              : plural(report.wrong_elements, "element") + " wrong; first " + report.first_wrong;
    text += labelled(terminal, "check", terminal.styled(right ? Terminal::Style::good : Terminal::Style::bad, check));
    text += labelled(terminal, "time",
                     format_seconds(report.median_seconds) + " (median of " + std::to_string(options.repeats) +
                         ", best " + format_seconds(report.min_seconds) + ")");
    const double rate = algbw(options, report) * 1e9;
    text += labelled(terminal, "algbw",
                     format_rate(rate) + ", busbw " + format_rate(rate * busbw_factor(collective.kind(), ranks)));
    if (prediction) {
      text += format_run_prediction(terminal, prepared.schedule.fabric(), report, *prediction);
    }
    return text;
  }

  const CommandSyntax* syntax_ = nullptr;
  LaunchOption launch_;
  FabricOption fabric_;
  CollectiveOption collective_;
  RunArguments arguments_;
};

}  // namespace

std::unique_ptr<Command> make_run_command() { return std::make_unique<RunCommand>(); }

}  // namespace banyan::app
