// banyan plan: the forest for a collective on a fabric, with the proof of how good it is.
#include <nlohmann/json.hpp>

#include "apps/codec_option.h"
#include "apps/collective_option.h"
#include "apps/command.h"
#include "apps/fabric_option.h"
#include "apps/lists.h"
#include "apps/option_values.h"
#include "apps/plan/loss_option.h"
#include "apps/plan/plan_progress.h"
#include "apps/plan/plan_repair.h"
#include "apps/plan/watched_simulation.h"
#include "apps/report.h"
#include "banyan/answer/plan_answer.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/plan/compare.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxTrees = 1'000'000;
constexpr uint64_t kMaxHeight = 1'000'000;
constexpr size_t kMaxSizes = 16;

struct Size {
  std::string text;  // as the user wrote it: "64MiB"
  Bytes bytes;
};

Size parse_shown_size(const std::string& text) { return {.text = text, .bytes = parse_size(text)}; }

std::vector<Size> parse_shown_sizes(const std::string& text) {
  std::vector<Size> sizes;
  for (const std::string& piece : split_list(text, "")) sizes.push_back(parse_shown_size(piece));
  if (sizes.size() <= kMaxSizes) return sizes;
  throw invalid("more than " + std::to_string(kMaxSizes) + " sizes; leave some out");
}

struct PlanArguments {
  plan::ForestOptions forest;
  std::optional<Size> bytes;
  std::vector<Size> sizes = parse_shown_sizes("1MiB,64MiB,1GiB");
  std::string output, repair;
  bool compare = false, list = false, json = false, no_lower = false;
};

struct Planned {
  Fabric fabric;
  Collective collective;
  answer::PlanAnswer answer;
  std::optional<Size> chosen_for = {};  // with --bytes
  std::vector<Size> sizes;
  std::vector<plan::ComparisonRow> rows;  // empty without --compare
};

Json seconds_json(const answer::PlanSeconds& seconds) {
  return {{"bound", seconds.bound},       {"switches", seconds.switches}, {"packing", seconds.packing},
          {"lowering", seconds.lowering}, {"verify", seconds.verify},     {"total", seconds.total}};
}

Json comparison_json(const Planned& planned) {
  Json rows = Json::array();
  for (const plan::ComparisonRow& row : planned.rows) {
    if (!row.why_not.empty()) {
      rows.push_back({{"planner", row.planner}, {"why_not", row.why_not}});
      continue;
    }
    Json estimates = Json::array();
    for (size_t i = 0; i < planned.sizes.size(); ++i) {
      estimates.push_back({{"bytes", planned.sizes[i].bytes.count()}, {"seconds", row.estimate_seconds[i]}});
    }
    rows.push_back({{"planner", row.planner},
                    {"algbw_GBps", algbw_gigabytes(row.seconds_per_byte)},
                    {"fraction", exact_algbw(row.seconds_per_byte)},
                    {"times_bound", row.over_bound},
                    {"height_max", row.heights.max},
                    {"height_mean", row.heights.mean},
                    {"rounds", row.messages.rounds},
                    {"messages_of_a_rank", row.messages.most_of_a_rank},
                    {"trees", row.chunks},
                    {"estimates", estimates}});
  }
  return rows;
}

std::string plan_json(const Planned& planned, const std::string& fabric_name) {
  const plan::ForestPlan& plan = planned.answer.plan;
  Json report = {{"collective", to_string(planned.collective.kind())},
                 {"fabric", counts_json(planned.fabric)},
                 {"bound", bound_json(plan.bound, planned.fabric, planned.collective)},
                 {"schedule", schedule_json(plan.schedule, plan.seconds_per_byte, plan.bound)},
                 {"seconds", seconds_json(planned.answer.seconds)},
                 {"name", fabric_name},
                 {"fingerprint", planned.fabric.fingerprint()},
                 {"participants", names_json(planned.collective.participants(), planned.fabric)}};
  if (planned.collective.is_rooted()) report["root"] = planned.fabric.name(planned.collective.root());
  if (planned.chosen_for) {
    Json contenders = Json::array();
    for (const answer::Contender& contender : planned.answer.contenders) {
      contenders.push_back({{"planner", contender.planner}, {"time_ps", contender.time.count()}});
    }
    report["chosen_for"] = {{"bytes", planned.chosen_for->bytes.count()},
                            {"planner", planned.answer.planner},
                            {"followed", planned.answer.followed},
                            {"simulated", contenders},
                            {"left_out", planned.answer.left_out}};
  }
  if (planned.answer.codecs) {
    report["codecs"] = codec_choice_json(*planned.answer.codecs, plan.bound.seconds_per_byte.to_double());
  }
  if (!planned.rows.empty()) report["comparison"] = comparison_json(planned);
  return format_json(report);
}

std::string comparison_text(const Terminal& terminal, const Planned& planned) {
  std::vector<std::string> heads = {"planner", "algbw", "of bound", "height", "mean", "trees", "rounds", "messages"};
  for (const Size& size : planned.sizes) heads.push_back(size.text);
  Table table(heads);
  for (const plan::ComparisonRow& row : planned.rows) {
    if (!row.why_not.empty()) {
      table.add({row.planner, "not here: " + row.why_not});
      continue;
    }
    std::vector<std::string> cells = {row.planner,
                                      format_algbw(row.seconds_per_byte),
                                      format_percent(1 / row.over_bound),
                                      std::to_string(row.heights.max),
                                      format_decimals(row.heights.mean, 1),
                                      std::to_string(row.chunks),
                                      std::to_string(row.messages.rounds),
                                      std::to_string(row.messages.most_of_a_rank)};
    for (const double seconds : row.estimate_seconds) cells.push_back(format_seconds(seconds));
    table.add(std::move(cells));
  }
  return "\n" + table.format(terminal) +
         terminal.styled(
             Terminal::Style::dim,
             "rounds follow one another; messages are those of the rank that sends most, for a buffer in one "
             "piece;\ntimes are estimates: height x (5 us + latency of the links) + bytes / algbw") +
         "\n";
}

std::string describe_seconds(const answer::PlanSeconds& seconds) {
  return format_seconds(seconds.total) + ": bound " + format_seconds(seconds.bound) + ", switches " +
         format_seconds(seconds.switches) + ", packing " + format_seconds(seconds.packing) + ", lowering " +
         format_seconds(seconds.lowering) + ", verifying " + format_seconds(seconds.verify);
}

std::string plan_text(const Terminal& terminal, const Planned& planned, const std::string& fabric_name) {
  const plan::ForestPlan& plan = planned.answer.plan;
  const schedule::Heights height = heights(plan.schedule);
  std::string text = labelled(terminal, std::string(to_string(planned.collective.kind())),
                              "on " + fabric_name + ": " + describe_counts(planned.fabric));
  if (planned.collective.participants().size() < planned.fabric.ranks().size()) {
    text += labelled(terminal, "", plural(planned.collective.participants().size(), "rank") + " take part");
  }
  if (planned.collective.is_rooted())
    text += labelled(terminal, "", "root " + planned.fabric.name(planned.collective.root()));
  text += bound_text(terminal, plan.bound, planned.fabric, planned.collective);
  text += schedule_text(terminal, plan.seconds_per_byte, plan.bound);
  text += labelled(terminal, "trees",
                   std::to_string(plan.schedule.chunk_count()) + ", height " + std::to_string(height.max) +
                       " at most, " + format_decimals(height.mean, 2) + " on average");
  if (plan.guaranteed_excess != Fraction(0)) {
    const double worst = plan.bound.seconds_per_byte.to_double() + plan.guaranteed_excess.to_double();
    text += labelled(terminal, "guarantee",
                     "with this number of trees, at least " + format_rate(1 / worst) + " on this fabric");
  }
  if (plan.is_optimum_unknown) {
    text += labelled(terminal, "note",
                     "trees branch at switches; whether any trees on this fabric reach the bound is not known");
  }
  if (plan.gave_up_overlap) {
    text += labelled(terminal, "note",
                     "a reduce-scatter, then an allgather; the search for a plan that overlaps them was given up here");
  }
  if (planned.chosen_for) {
    std::string simulated;
    for (const answer::Contender& contender : planned.answer.contenders) {
      simulated += (simulated.empty() ? "" : ", ") + contender.planner + " " + format_seconds(contender.time);
    }
    if (planned.answer.left_out > 0) {
      simulated += ";\n" + plural(planned.answer.left_out, "other plan") +
                   " cannot be quicker: the busiest link or the height alone costs more";
    }
    text += labelled(
        terminal, "chosen",
        planned.answer.planner + ", the quickest for " + planned.chosen_for->text + " when simulated: " + simulated);
    if (!planned.answer.followed.empty() && planned.answer.followed != planned.answer.planner) {
      text += labelled(terminal, "calls",
                       "of this size follow " + planned.answer.followed +
                           ", by an estimate that allows for links which streams share; to follow this plan, give it "
                           "as BANYAN_PLAN");
    }
  }
  if (planned.answer.codecs) {
    const answer::CodecChoice& choice = *planned.answer.codecs;
    text += labelled(terminal, "codec", codec_or_float32(choice.chosen().codec) + ": " + choice.why);
  }
  text += labelled(terminal, "planned in", describe_seconds(planned.answer.seconds));
  if (!planned.rows.empty()) text += comparison_text(terminal, planned);
  if (planned.answer.codecs) {
    text += format_codec_rows(terminal, *planned.answer.codecs, plan.bound.seconds_per_byte.to_double());
  }
  return text;
}

class PlanCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("plan", "Plan a collective and prove how good the plan is.");
    syntax_ = &command;
    collective_.declare(command);  // --list needs neither
    fabric_.declare(command, "FABRIC", FabricOption::Place::optional);
    command.option(
        "--trees", count_into(arguments_.forest.trees, {.most = kMaxTrees}), "K",
        "use K trees per rank, instead of as many as the optimum needs; the plan says how much slower it may be");
    command.option("--max-height", count_into(arguments_.forest.max_height, {.most = kMaxHeight}), "H",
                   "find the best throughput with no tree higher than H");
    command
        .flag("--no-lower", arguments_.no_lower,
              "keep tall trees as they come out, without a search for lower ones, which may take seconds")
        .excludes = {"--max-height"};
    OptionSyntax& bytes =
        command.option("--bytes", into(arguments_.bytes, parse_shown_size), "SIZE",
                       "choose the plan that is quickest for this size in a simulation: low trees for small buffers");
    codec_.declare(command,
                   "choose it for float32 in this code, such as int8; auto: in the one that is best, or in none");
    command.flag("--compare", arguments_.compare, "show rings, trees and recursive doubling beside the forest");
    command
        .option("--sizes", into(arguments_.sizes, parse_shown_sizes), "LIST",
                "sizes that --compare estimates (default 1MiB,64MiB,1GiB)")
        .needs = "--compare";
    command.flag("--list", arguments_.list, "list the planners that --compare shows");
    command.option("-o,--output", &arguments_.output, "FILE", "write the plan, for verify, export, show and run");
    command.flag("--json", arguments_.json, "print one JSON object");
    bytes.excludes = {"--trees", "--max-height"};
    max_loss_.declare(command);
    OptionSyntax& repair = command.option(
        "--repair", &arguments_.repair, "PLAN",
        "repair this plan after --fail, --degrade or --remove, or for FABRIC as it is now: keep what still fits");
    repair.paths = OptionSyntax::Paths::files;
    repair.excludes = {"--trees", "--max-height", "--no-lower", "--bytes",   "--compare",
                       "--list",  "--ranks",      "--root",     "--weights", "--traffic"};
    command.examples({"banyan plan allgather dgx-h100:8 -o plan.json",
                      "banyan plan allreduce torus:4x4@25GB/s --compare --sizes 1MiB,64MiB,1GiB",
                      "banyan plan broadcast torus:4x4 --root x0y0", "banyan plan allgather mi250:2 --trees 1 --json",
                      "banyan plan allreduce dgx-a100:8 --bytes 64KiB -o small.json",
                      "banyan plan allreduce star:4@1Gb/s --bytes 64MiB --codec auto",
                      "banyan plan allgather ring:4 --weights 1,2,1,4",
                      "banyan plan all-to-all torus:8x8 -o paths.json",
                      "banyan plan all-to-all dgx-h100:4 --traffic matrix.csv --compare",
                      "banyan plan reduce-scatter dgx-a100:8 --fail gpu3-ib0 --max-height 4",
                      "banyan plan --repair plan.json --fail gpu3-ib0 -o repaired.json",
                      "banyan plan allgather dgx-h100:8 --repair repaired.json   # the link is back",
                      "banyan plan allgather cluster.json --max-loss 1e-5"});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (arguments_.list) {
      terminal.print(list_planners(terminal, arguments_.json ? ListForm::json : ListForm::text));
      return ExitCode::success;
    }
    if (!arguments_.repair.empty()) {
      if (syntax_->is_given("COLLECTIVE") && !syntax_->is_given("FABRIC")) {
        throw invalid(
            "--repair takes the COLLECTIVE and the FABRIC as it is now, or neither: then the plan says what "
            "they are");
      }
      repair_plan_file(terminal, {.plan = arguments_.repair,
                                  .collective = collective_.text(),
                                  .fabric = fabric_,
                                  .max_loss = max_loss_,
                                  .output = arguments_.output,
                                  .json = arguments_.json});
      return ExitCode::success;
    }
    for (const char* const word : {"COLLECTIVE", "FABRIC"}) {
      if (!syntax_->is_given(word)) {
        throw invalid(std::string(word) + " is required; see 'banyan plan --help'");
      }
    }
    check_output_place(arguments_.output, arguments_.json);
    arguments_.forest.lower = !arguments_.no_lower;
    codec_question();  // what is mistyped is told before a large fabric is read
    std::optional<Planned> planned;
    {
      Progress progress(terminal, "reading the fabric");
      planned = make_plan(arguments_.forest, progress);
      if (!arguments_.output.empty()) {
        progress.say("writing the plan");
        write_plan(terminal, planned->answer);
      }
    }
    const std::string described = fabric_.described() + max_loss_.described();
    std::string text = arguments_.json ? plan_json(*planned, described) : plan_text(terminal, *planned, described);
    if (!arguments_.json) text += written(terminal, arguments_.output);
    say_beside(terminal, arguments_.output, text);
    return ExitCode::success;
  }

 private:
  // With --compare, all codecs stand beside those that are asked for.
  std::optional<answer::CodecQuestion> codec_question() const {
    if (!codec_.is_given()) return std::nullopt;
    if (!arguments_.bytes) {
      throw Error(ErrorCode::invalid_input, "needs --bytes: what a code gains depends on the size", "--codec");
    }
    if (find_collective_kind(collective_.text())) {
      parse_option("--codec", [&] { answer::expect_codes(collective_.kind()); });
    }
    answer::CodecQuestion question{.wish = codec_.wish(), .cores = codec_.cores()};
    if (arguments_.compare) question.wish = beside_all(question.wish);
    return question;
  }

  Planned make_plan(plan::ForestOptions options, Progress& progress) const {
    if (find_collective_kind(fabric_.text()) && !find_collective_kind(collective_.text())) {
      throw invalid("the collective comes before the fabric: banyan plan " + fabric_.text() + " " +
                    harmless(collective_.text()));
    }
    collective_.kind();  // a misspelt collective is told before a large fabric is read
    Fabric fabric = max_loss_.without_lossy(fabric_.load());
    Collective collective = collective_.make(fabric);
    PlanProgress watch(progress);
    options.observer = &watch;
    answer::PlanAnswer answer = answer::make_plan(fabric, collective, options);
    std::vector<plan::ComparisonRow> rows;
    if (arguments_.compare) {
      std::vector<Bytes> bytes;
      for (const Size& size : arguments_.sizes) bytes.push_back(size.bytes);
      rows = compare_planners(answer.plan.schedule, {.bound = answer.plan.bound, .sizes = bytes}, &watch);
    }
    Planned planned{.fabric = std::move(fabric),
                    .collective = std::move(collective),
                    .answer = std::move(answer),
                    .chosen_for = arguments_.bytes,
                    .sizes = arguments_.sizes,
                    .rows = std::move(rows)};
    if (planned.chosen_for) {
      WatchedSimulation simulating(progress);
      const std::optional<answer::CodecQuestion> codecs = codec_question();
      choose_by_simulation(planned.answer, planned.chosen_for->bytes, &watch, &simulating, codecs ? &*codecs : nullptr);
    }
    return planned;
  }

  // The file takes the schedule by value; it is moved there and back, for it may be large.
  void write_plan(const Terminal& terminal, answer::PlanAnswer& answer) const {
    schedule::ScheduleFile file = to_file(std::move(answer));
    write_output(terminal, arguments_.output, format_schedule(file));
    answer.plan.schedule = std::move(file.schedule);
    answer.planner = std::move(file.planner);
  }

  const CommandSyntax* syntax_ = nullptr;
  FabricOption fabric_;
  CollectiveOption collective_;
  CodecOption codec_;
  LossOption max_loss_;
  PlanArguments arguments_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace banyan::app
