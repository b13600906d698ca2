// banyan predict: how long a plan takes, by size, on a simulated fabric.
#include <algorithm>
#include <filesystem>

#include "apps/codec_option.h"
#include "apps/command.h"
#include "apps/lists.h"
#include "apps/option_values.h"
#include "apps/plan/watched_simulation.h"
#include "apps/predict/job_prediction.h"
#include "apps/predict/predict_calibrate.h"
#include "apps/predict/predict_job.h"
#include "apps/predict/predict_train.h"
#include "apps/report.h"
#include "banyan/answer/plan_check.h"
#include "banyan/answer/predicted_plans.h"
#include "banyan/answer/step_answer.h"
#include "banyan/base/file.h"
#include "banyan/base/nearest.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/read.h"
#include "banyan/predict/report/prediction_json.h"

namespace banyan::app {
namespace {

struct PlanOptions {
  std::vector<std::string> what;
  std::vector<Bytes> sizes = {Bytes(uint64_t{1} << 30)};
  answer::TimingOptions timing;
  ReportFiles files;
  bool unfolded = false, json = false;
};

std::vector<Bytes> parse_sweep(const std::string& text) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) throw invalid(in_quotes(text) + " has no ':'; write it as 1KiB:4GiB");
  return answer::doubling_sizes(parse_size(text.substr(0, colon)), parse_size(text.substr(colon + 1)));
}

std::vector<Meaning> exits_of_a_simulation(const char* no = nullptr) {
  std::vector<Meaning> codes = {{"0", "success"}};
  if (no != nullptr) codes.push_back({"1", no});
  codes.push_back({"2", "bad input"});
  codes.push_back({"130", "ended by Ctrl-C: what was printed is no result"});
  return codes;
}

double seconds_of(Picoseconds time) { return std::chrono::duration<double>(time).count(); }

class PredictCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command =
        program.command("predict", "Simulate plans, training steps and traces: time, throughput, busiest links.");
    syntax_ = &command;
    OptionSyntax& what =
        command.word("WHAT", &plan_.what, "plan files, or a collective and a fabric, whose plans are then compared");
    what.takes_rest = true;
    what.values = planned_collectives();
    for (std::string& spec : fabric_specs()) what.values.push_back(std::move(spec));
    what.paths = OptionSyntax::Paths::files;
    const auto parse_sizes = [](const std::string& text) { return std::vector{parse_size(text)}; };
    command.option("--bytes", into(plan_.sizes, parse_sizes), "SIZE",
                   "size of the whole buffer, gathered or reduced (default 1GiB)");
    command
        .option("--sweep", into(plan_.sizes, parse_sweep), "FROM:TO",
                "a table over sizes that double, with the best plan for each")
        .excludes = {"--bytes"};
    command.option("--slice", into(plan_.timing.slice, parse_size), "SIZE",
                   "piece that moves at once along a tree (default: best of three)");
    command.option("--alpha", into(plan_.timing.alpha, parse_duration), "TIME",
                   "cost of a message besides its bytes (default 5us)");
    codec_.declare(command,
                   "float32 in this code, such as int8; several or auto: a table of all, and which is best (not with "
                   "--sweep)");
    command.option("--window", into(plan_.timing.window, parse_duration), "TIME",
                   "treat messages that end within TIME of each other as ending together: faster, less exact");
    command.flag("--unfolded", plan_.unfolded, "simulate every message, without merging identical ones");
    command.option("--html", &plan_.files.html, "FILE", "write a page with links by load and throughput by size");
    command.option("-o,--output", &plan_.files.output, "FILE", "write the prediction as JSON");
    command.flag("--list", lists_, "list the models and the devices of 'predict train', and the planners");
    command.flag("--json", plan_.json, "print one JSON object");
    command.examples({"banyan predict plan.json --bytes 1GiB", "banyan predict plan.json other.json --sweep 1KiB:4GiB",
                      "banyan predict allreduce dgx-a100:8 --sweep 1KiB:1GiB",
                      "banyan predict allgather torus:4x4 --bytes 64MiB --slice 512KiB --alpha 2us --json",
                      "banyan predict allreduce star:4@1Gb/s --bytes 64MiB --codec auto",
                      "banyan predict train --model gpt3-13b --fabric dgx-a100:8 --tp 8 --dp 8 --global-batch 512",
                      "banyan predict job trace.goal --fabric fat-tree:k=8 --html report.html",
                      "banyan predict calibrate nccl.log -o costs.json"});
    command.notes(
        {"Slices move along all trees at once and links are shared max-min fairly. A message costs --alpha "
         "before its first byte and the latency of its links after its last. Ctrl-C ends a long simulation; what is "
         "printed then is no result."});
    command.exit_codes(exits_of_a_simulation());
    declare_subcommands(command);
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    // --json prints what -o writes.
    for (const auto& [output, json] :
         {std::pair{&plan_.files.output, &plan_.json}, std::pair{&job_arguments_.files.output, &job_arguments_.json}}) {
      if (*output != "-") continue;
      output->clear();
      *json = true;
    }
    if (lists_ && !train_->was_chosen()) {
      terminal.print(list_predictable(terminal, plan_.json ? ListForm::json : ListForm::text));
      return ExitCode::success;
    }
    if (train_->was_chosen()) return run_train(terminal);
    if (job_->was_chosen()) return run_predict_job(terminal, job_source_, job_arguments_);
    if (calibrate_->was_chosen()) return run_calibrate(terminal, calibrate_options_);
    if (plan_.what.empty()) {
      throw invalid("WHAT is required: plan files, or a collective and a fabric; see 'banyan predict --help'");
    }
    answer::TimingOptions options = plan_.timing;
    options.fold = !plan_.unfolded;
    const bool is_sweep = syntax_->is_given("--sweep");
    const answer::CodecWish wish = codec_.wish();
    if (wish.choice != answer::CodecWish::Choice::by_name && is_sweep) {
      throw Error(ErrorCode::invalid_input, "compares codecs for one size; give one codec, or --bytes", "--codec");
    }
    for (const Bytes size : plan_.sizes) {
      if (options.slice) parse_option("--slice", [&] { answer::expect_few_pieces(size, *options.slice); });
    }
    check_output_places(plan_.files);
    std::vector<answer::NamedPlan> plans;
    std::vector<answer::TimedSize> points;
    {
      Progress progress(terminal, "planning");
      plans = load_plans();
      if (!wish.is_dense()) {
        parse_option("--codec", [&] { answer::expect_codes(plans.front().schedule->collective().kind()); });
      }
      progress.say("simulating");
      WatchedSimulation watch(progress);
      answer::TimingOptions watched = options;
      watched.observer = &watch;
      std::optional<codec::Codec> codec = wish.codecs.back();
      if (!is_sweep && codec_.is_given()) {
        choice_ = choose_codec(candidates_of(plans), plan_.sizes.front(), wish, codec_.cores(), watched);
        codec = choice_->chosen().codec;
      }
      if (codec) options.codec = watched.codec = answer::codec_cost(*codec, codec_.cores());
      points = time_sizes(plans, plan_.sizes, watched);
    }
    predict::ReportInput report = answer::report_of(plans, points, fabric_text_);
    if (options.codec) report.prediction.title += ", as " + to_string(options.codec->codec);
    if (choice_) report.notes.push_back("codec " + codec_or_float32(choice_->chosen().codec) + ": " + choice_->why);
    const std::string written = write_reports(report, plan_.files, terminal);
    if (plan_.json) {
      terminal.print(format_prediction(report));
    } else {
      terminal.print(
          (is_sweep ? as_table(terminal, plans, points) : as_text(terminal, plans, points.front(), report, options)) +
          written);
    }
    return points.back().is_complete() ? ExitCode::success : ExitCode::interrupted;
  }

 private:
  void declare_subcommands(CommandSyntax& command) {
    train_ = &command.command("train", "Simulate a training step of a transformer.");
    declare_train_options(*train_, train_options_);
    declare_job_arguments(*train_, job_arguments_);
    train_->flag("--list", lists_, "list the models and the devices");
    train_->examples(
        {"banyan predict train --list",
         "banyan predict train --model gpt3-175b --gpu a100-80g --fabric dgx-a100:64 --tp 8 --pp 8 --dp 8 \\",
         "    --global-batch 1536 --recompute full",
         "banyan predict train --model llama3-405b --gpu h100 --fabric dgx-h100:2048 --tp 8 --pp 16 \\",
         "    --dp 128 --global-batch 2048 --sequence-parallel --zero 1 --what-if",
         "banyan predict train --model gpt3-1.3b --fabric dgx-a100:4 --dp 32 --global-batch 64 --overlap-gradients \\",
         "    --compress auto",
         "banyan predict train --layers 24 --hidden 2048 --dp 8 --global-batch 32 --fabric dgx-a100:1 \\",
         "    --html step.html"});
    train_->exit_codes(exits_of_a_simulation("the step does not fit into memory"));
    job_ = &command.command("job", "Simulate traces and other jobs: GOAL, Chakra, PyTorch, several at once.");
    declare_job_source(*job_, job_source_);
    declare_job_arguments(*job_, job_arguments_);
    job_->examples({"banyan predict job trace.goal --fabric fat-tree:k=8",
                    "banyan predict job --chakra traces/llama --groups groups.json --fabric dgx-a100:4 --what-if",
                    "banyan predict job --kineto rank0.json,rank1.json --fabric dgx-a100:1 --html report.html",
                    "banyan predict job --jobs jobs.json --fabric dgx-a100:16 --placement round-robin"});
    job_->exit_codes(exits_of_a_simulation());
    calibrate_ =
        &command.command("calibrate", "Fit costs to measured collectives, or devices to measured training steps.");
    declare_calibrate_options(*calibrate_, calibrate_options_);
    calibrate_->examples(
        {"banyan predict calibrate nccl.log -o costs.json   # then: predict train ... --costs costs.json",
         "banyan predict calibrate steps.csv --gpu a100-80g -o a100.json --check other.csv"});
    calibrate_->notes(
        {"The report shows how well the fit holds on data that it has not seen: every second point of a "
         "curve, or models that were left out."});
  }

  ExitCode run_train(const Terminal& terminal) {
    if (lists_) {
      terminal.print(list_models_and_devices(terminal, job_arguments_.json ? ListForm::json : ListForm::text));
      return ExitCode::success;
    }
    answer::StepQuestion question{.setup = answer::make_train_setup(train_options_, job_arguments_.fabric),
                                  .ignore_memory = train_options_.ignore_memory,
                                  .fabric = fabric_of(job_arguments_, "dgx-a100:64"),
                                  .fabric_name = harmless(job_arguments_.fabric),
                                  .options = job_arguments_.options};
    check_output_places(job_arguments_.files);
    const answer::StepAnswer step =
        watched(terminal, [&](answer::JobObserver& observer) { return predict_step(std::move(question), observer); });
    const predict::ReportInput report = report_of(step);
    const std::string written = step.is_refused() ? "" : write_reports(report, job_arguments_.files, terminal);
    terminal.print(job_arguments_.json ? answer_json(report) : as_text(terminal, step) + written);
    return step.is_refused() ? ExitCode::answer_is_no : exit_code(step.answer);
  }

  static std::string as_text(const Terminal& terminal, const answer::StepAnswer& step) {
    const std::string setup = format_train_setup(terminal, step.setup, step.memory);
    if (step.is_refused()) return setup;
    const Prediction& prediction = step.answer.simulation.prediction;
    std::string text = setup + "\n";
    if (prediction.complete) {
      text += labelled(terminal, "step",
                       format_step(step.setup, seconds_of(prediction.time)) + "\n" + format_launches(*step.job));
    }
    if (step.compression) text += format_compression(terminal, *step.compression);
    answer::JobQuestion question = step.question;
    question.notes.clear();  // which stand in the setup
    return text + format_answer(question, step.answer, terminal);
  }

  std::vector<answer::NamedPlan> load_plans() {
    std::vector<answer::NamedPlan> plans;
    if (const auto kind = collective_named(plan_.what.front())) {
      if (plan_.what.size() != 2) {
        throw invalid("a collective needs one fabric after it, as in 'banyan predict " + plan_.what.front() +
                      " dgx-a100:8'");
      }
      fabric_text_ = harmless(plan_.what[1]);
      const Fabric fabric = fabric::load_fabric({.fabric = plan_.what[1]});
      for (plan::Candidate& candidate : plan::plan_candidates(fabric, Collective::make(fabric, {.kind = *kind}))) {
        plans.push_back(
            {std::move(candidate.planner), std::make_shared<const Schedule>(std::move(candidate.schedule))});
      }
      return plans;
    }
    if (plan_.what.size() == 2 && collective_named(plan_.what[1])) {
      throw invalid("the collective comes before the fabric: banyan predict " + plan_.what[1] + " " +
                    harmless(plan_.what[0]));
    }
    for (const std::string& path : plan_.what) {
      expect_plan_file(path);
      schedule::ScheduleFile file = answer::read_valid_plan(path);
      if (!plans.empty() && !(file.schedule.collective() == plans.front().schedule->collective())) {
        throw Error(ErrorCode::mismatch, "is a plan for another collective than " + plan_.what.front(), path);
      }
      if (!plans.empty()) answer::require_same_fabric(file, path, plans.front().schedule->fabric(), plan_.what.front());
      plans.push_back({plan_.what.size() == 1 ? file.planner : harmless(path),
                       std::make_shared<const Schedule>(std::move(file.schedule))});
    }
    fabric_text_ = describe_counts(plans.front().schedule->fabric());
    return plans;
  }

  static std::optional<CollectiveKind> collective_named(const std::string& word) {
    const auto kind = find_collective_kind(word);
    return kind && is_planned(*kind) ? kind : std::nullopt;  // if none, it is the name of a file
  }

  // A word that is neither a file nor looks like one is a mistyped collective or command.
  static void expect_plan_file(const std::string& word) {
    std::error_code ignored;
    if (std::filesystem::exists(word, ignored) || word.find_first_of("./") != std::string::npos) return;
    NearestName nearest(word);
    for (const CollectiveTraits& traits : kCollectives) {
      if (traits.is_planned) nearest.offer(traits.name);
    }
    for (const char* command : {"train", "job", "calibrate"}) nearest.offer(command);
    throw invalid("'" + word.substr(0, 60) + "' is neither a plan file nor a collective" + nearest.hint() +
                  "; known are " + collective_names(is_planned));
  }

  std::string as_text(const Terminal& terminal, const std::vector<answer::NamedPlan>& plans,
                      const answer::TimedSize& point, const predict::ReportInput& report,
                      const answer::TimingOptions& options) const {
    const Schedule& schedule = *plans[point.best].schedule;
    const predict::ScheduleSimulation& simulation = point.timed[point.best].simulation;
    const Bytes on_wire = options.codec ? options.codec->coded(point.total) : point.total;
    const double bytes_alone = seconds_per_byte(schedule).to_double() * static_cast<double>(on_wire.count());
    std::string text = labelled(terminal, std::string(to_string(schedule.collective().kind())),
                                point.total.to_string() + " on " + fabric_text_ + ", " + plans[point.best].name);
    if (!point.is_complete()) return text + interrupted(terminal, point);
    std::string time = format_seconds(simulation.time);
    if (bytes_alone > 0) {
      time += ", " + format_decimals(seconds_of(simulation.time) / bytes_alone, 2) + " times what the bytes alone take";
    }
    text += labelled(terminal, "time", time);
    if (choice_) {
      text += labelled(terminal, "codec", codec_or_float32(choice_->chosen().codec) + ": " + choice_->why);
    }
    text += labelled(terminal, "algbw", format_rate(simulation.algbw) + ", busbw " + format_rate(simulation.busbw));
    text += labelled(terminal, "messages",
                     plural(simulation.messages, "message") + " of up to " + point.timed[point.best].slice.to_string() +
                         ", simulated as " + std::to_string(simulation.messages_simulated));
    if (simulation.window.bytes > 0) {
      text += labelled(terminal, "window",
                       "sizes are off by " + format_percent(simulation.window.of_all) + " in all, " +
                           format_percent(simulation.window.worst_flow) + " for one message at most");
    }
    text += format_busiest_links(terminal, report);
    if (plans.size() > 1) text += others(terminal, plans, point);
    if (choice_) text += format_codec_rows(terminal, *choice_, least_seconds_per_byte(plans));
    return text;
  }

  static std::vector<plan::Candidate> candidates_of(const std::vector<answer::NamedPlan>& plans) {
    std::vector<plan::Candidate> candidates;
    for (const answer::NamedPlan& plan : plans) candidates.push_back({plan.name, *plan.schedule});
    return candidates;
  }

  // Of these plans: that of the bound is not known here.
  static double least_seconds_per_byte(const std::vector<answer::NamedPlan>& plans) {
    double least = seconds_per_byte(*plans.front().schedule).to_double();
    for (const answer::NamedPlan& plan : plans) least = std::min(least, seconds_per_byte(*plan.schedule).to_double());
    return least;
  }

  static std::string interrupted(const Terminal& terminal, const answer::TimedSize& point) {
    return labelled(terminal, "interrupted",
                    "at " + format_seconds(point.timed.back().simulation.time) +
                        " of virtual time: how long it takes is not known");
  }

  static std::string others(const Terminal& terminal, const std::vector<answer::NamedPlan>& plans,
                            const answer::TimedSize& point) {
    Table table({"plan", "time", "algbw", "busbw"});
    for (size_t p = 0; p < point.timed.size(); ++p) {
      const predict::ScheduleSimulation& simulation = point.timed[p].simulation;
      table.add({plans[p].name + (p == point.best ? " *" : ""), format_seconds(simulation.time),
                 format_rate(simulation.algbw), format_rate(simulation.busbw)});
    }
    return "\n" + table.format(terminal);
  }

  static std::string as_table(const Terminal& terminal, const std::vector<answer::NamedPlan>& plans,
                              const std::vector<answer::TimedSize>& points) {
    std::vector<std::string> heads = {"size", "time", "algbw", "busbw", "best plan"};
    if (plans.size() > 1) {
      for (const answer::NamedPlan& plan : plans) heads.push_back(plan.name);
    }
    Table table(heads);
    for (const answer::TimedSize& point : points) {
      if (!point.is_complete()) return table.format(terminal) + interrupted(terminal, point);
      const predict::ScheduleSimulation& best = point.timed[point.best].simulation;
      std::vector<std::string> cells = {point.total.to_string(), format_seconds(best.time), format_rate(best.algbw),
                                        format_rate(best.busbw), plans[point.best].name};
      for (size_t p = 0; plans.size() > 1 && p < plans.size(); ++p) {
        cells.push_back(format_seconds(point.timed[p].simulation.time));
      }
      table.add(std::move(cells));
    }
    return table.format(terminal);
  }

  CommandSyntax *syntax_ = nullptr, *train_ = nullptr, *job_ = nullptr, *calibrate_ = nullptr;
  PlanOptions plan_;
  JobArguments job_arguments_;
  predict::TrainOptions train_options_;
  answer::JobSource job_source_;
  CalibrateOptions calibrate_options_;
  std::string fabric_text_;
  CodecOption codec_;
  std::optional<answer::CodecChoice> choice_;
  bool lists_ = false;
};

}  // namespace

std::unique_ptr<Command> make_predict_command() { return std::make_unique<PredictCommand>(); }

}  // namespace banyan::app
