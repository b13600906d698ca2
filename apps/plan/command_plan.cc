// banyan plan: the forest for a collective on a fabric, with the proof of how good it is.
#include <nlohmann/json.hpp>

#include "apps/codec_option.h"
#include "apps/collective_option.h"
#include "apps/command.h"
#include "apps/fabric_option.h"
#include "apps/lists.h"
#include "apps/plan/plan_progress.h"
#include "apps/plan/plan_repair.h"
#include "apps/plan/watched_simulation.h"
#include "apps/report.h"
#include "banyan/answer/plan_answer.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/loss.h"
#include "banyan/plan/compare.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMaxTrees = 1'000'000;
constexpr uint64_t kMaxHeight = 1'000'000;
constexpr size_t kMaxSizes = 16;

struct PlanTexts {
  std::string trees, max_height, bytes, sizes, output, repair, max_loss;
  bool compare = false, list = false, json = false, no_lower = false;
};

struct Size {
  std::string text;  // as the user wrote it: "64MiB"
  Bytes bytes;
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
  Json names = Json::array();
  for (const NodeId id : planned.collective.participants()) names.push_back(planned.fabric.name(id));
  Json report = {{"collective", to_string(planned.collective.kind())},
                 {"fabric", counts_json(planned.fabric)},
                 {"bound", bound_json(plan.bound, planned.fabric, planned.collective)},
                 {"schedule", schedule_json(plan.schedule, plan.seconds_per_byte, plan.bound)},
                 {"seconds", seconds_json(planned.answer.seconds)},
                 {"name", fabric_name},
                 {"fingerprint", planned.fabric.fingerprint()},
                 {"participants", names}};
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
  text += labelled(terminal, "bound",
                   format_algbw(plan.bound.seconds_per_byte) + ", exactly " + exact_algbw(plan.bound.seconds_per_byte) +
                       " bytes/s, because\n" + describe(plan.bound.witness, planned.fabric, planned.collective));
  if (const std::string assumed = assumed_in_words(plan.bound, planned.fabric, planned.collective); !assumed.empty())
    text += labelled(terminal, "", "as far as is known: " + assumed);
  text += labelled(terminal, "schedule",
                   format_algbw(plan.seconds_per_byte) + ", " +
                       terminal.styled(plan.optimal ? Terminal::Style::good : Terminal::Style::bold,
                                       describe_distance(plan.seconds_per_byte, plan.bound)) +
                       ", verified");
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
    collective_.declare(command, CollectiveOption::Place::optional);  // --list needs neither
    fabric_.declare(command, "FABRIC", FabricOption::Place::optional);
    command.option(
        "--trees", &texts_.trees, "K",
        "use K trees per rank, instead of as many as the optimum needs; the plan says how much slower it may be");
    command.option("--max-height", &texts_.max_height, "H", "find the best throughput with no tree higher than H");
    command
        .flag("--no-lower", texts_.no_lower,
              "keep tall trees as they come out, without a search for lower ones, which may take seconds")
        .excludes = {"--max-height"};
    OptionSyntax& bytes =
        command.option("--bytes", &texts_.bytes, "SIZE",
                       "choose the plan that is quickest for this size in a simulation: low trees for small buffers");
    codec_.declare(command,
                   "choose it for float32 in this code, such as int8; auto: in the one that is best, or in none");
    command.flag("--compare", texts_.compare, "show rings, trees and recursive doubling beside the forest");
    command.option("--sizes", &texts_.sizes, "LIST", "sizes that --compare estimates (default 1MiB,64MiB,1GiB)").needs =
        "--compare";
    command.flag("--list", texts_.list, "list the planners that --compare shows");
    command.option("-o,--output", &texts_.output, "FILE", "write the plan, for verify, export, show and run");
    command.flag("--json", texts_.json, "print one JSON object");
    bytes.excludes = {"--trees", "--max-height"};
    command.option("--max-loss", &texts_.max_loss, "FRACTION",
                   "leave out cables that lose more packets than this in either direction, such as 1e-5");
    OptionSyntax& repair = command.option(
        "--repair", &texts_.repair, "PLAN",
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
    if (texts_.list) {
      terminal.print(list_planners(terminal, texts_.json ? ListForm::json : ListForm::text));
      return ExitCode::success;
    }
    if (!texts_.repair.empty()) {
      if (syntax_->is_given("COLLECTIVE") && !syntax_->is_given("FABRIC")) {
        throw Error(ErrorCode::invalid_input,
                    "--repair takes the COLLECTIVE and the FABRIC as it is now, or neither: then the plan says what "
                    "they are");
      }
      repair_plan_file(terminal, {.plan = texts_.repair,
                                  .collective = collective_.text(),
                                  .fabric = fabric_,
                                  .max_loss = texts_.max_loss,
                                  .output = texts_.output,
                                  .json = texts_.json});
      return ExitCode::success;
    }
    for (const char* const word : {"COLLECTIVE", "FABRIC"}) {
      if (!syntax_->is_given(word)) {
        throw Error(ErrorCode::invalid_input, std::string(word) + " is required; see 'banyan plan --help'");
      }
    }
    check_output_place(texts_.output, texts_.json);
    const plan::ForestOptions options = forest_options();
    codec_question();
    size_to_choose_for();  // what is mistyped is told before a large fabric is read
    std::optional<Planned> planned;
    {
      Progress progress(terminal, "reading the fabric");
      planned = make_plan(options, progress);
      if (!texts_.output.empty()) {
        progress.say("writing the plan");
        write_plan(terminal, planned->answer);
      }
    }
    std::string text = texts_.json ? plan_json(*planned, described()) : plan_text(terminal, *planned, described());
    if (!texts_.json) text += written(terminal, texts_.output);
    say_beside(terminal, texts_.output, text);
    return ExitCode::success;
  }

 private:
  plan::ForestOptions forest_options() const {
    plan::ForestOptions options;
    if (!texts_.trees.empty()) options.trees = parse_count(texts_.trees, "--trees", {.most = kMaxTrees});
    if (!texts_.max_height.empty()) {
      options.max_height = static_cast<uint32_t>(parse_count(texts_.max_height, "--max-height", {.most = kMaxHeight}));
    }
    options.lower = !texts_.no_lower;
    return options;
  }

  // With --compare, all codecs stand beside those that are asked for.
  std::optional<answer::CodecQuestion> codec_question() const {
    if (!codec_.is_given()) return std::nullopt;
    if (texts_.bytes.empty()) {
      throw Error(ErrorCode::invalid_input, "needs --bytes: what a code gains depends on the size", "--codec");
    }
    if (find_collective_kind(collective_.text())) {
      parse_option("--codec", [&] { answer::expect_codes(collective_.kind()); });
    }
    answer::CodecQuestion question{.wish = codec_.wish(), .cores = codec_.cores()};
    if (texts_.compare) question.wish = beside_all(question.wish);
    return question;
  }

  std::optional<Size> size_to_choose_for() const {
    if (texts_.bytes.empty()) return std::nullopt;
    const Bytes bytes = parse_option("--bytes", [&] { return Bytes::parse(texts_.bytes); });
    if (bytes.count() > 0) return Size{.text = texts_.bytes, .bytes = bytes};
    throw Error(ErrorCode::invalid_input, "'" + texts_.bytes + "' is zero bytes; give a size such as 64KiB", "--bytes");
  }

  std::vector<Size> sizes() const {
    std::vector<Size> result;
    for (const std::string& text : split_list(texts_.sizes.empty() ? "1MiB,64MiB,1GiB" : texts_.sizes, "--sizes")) {
      const Bytes bytes = parse_option("--sizes", [&] { return Bytes::parse(text); });
      if (bytes.count() == 0) {
        throw Error(ErrorCode::invalid_input, "'" + text + "' is zero bytes; give sizes such as 1MiB,64MiB", "--sizes");
      }
      result.push_back({.text = text, .bytes = bytes});
    }
    if (result.size() > kMaxSizes) {
      throw Error(ErrorCode::invalid_input, "more than " + std::to_string(kMaxSizes) + " sizes; leave some out",
                  "--sizes");
    }
    return result;
  }

  Fabric load_fabric() const {
    if (texts_.max_loss.empty()) return fabric_.load();
    const double most = parse_option("--max-loss", [&] { return fabric::parse_loss(texts_.max_loss); });
    const Fabric fabric = fabric_.load();
    return parse_option("--max-loss", [&] { return without_lossy_links(fabric, most); });
  }

  std::string described() const {
    return fabric_.described() + (texts_.max_loss.empty() ? "" : " --max-loss " + harmless(texts_.max_loss));
  }

  Planned make_plan(plan::ForestOptions options, Progress& progress) const {
    std::vector<Size> wanted = texts_.compare ? sizes() : std::vector<Size>();
    if (find_collective_kind(fabric_.text()) && !find_collective_kind(collective_.text())) {
      throw Error(ErrorCode::invalid_input, "the collective comes before the fabric: banyan plan " + fabric_.text() +
                                                " " + harmless(collective_.text()));
    }
    collective_.kind();  // a misspelt collective is told before a large fabric is read
    Fabric fabric = load_fabric();
    Collective collective = collective_.make(fabric);
    PlanProgress watch(progress);
    options.observer = &watch;
    answer::PlanAnswer answer = answer::make_plan(fabric, collective, options);
    std::vector<plan::ComparisonRow> rows;
    if (texts_.compare) {
      std::vector<Bytes> bytes;
      for (const Size& size : wanted) bytes.push_back(size.bytes);
      rows = compare_planners(answer.plan.schedule, {.bound = answer.plan.bound, .sizes = bytes}, &watch);
    }
    Planned planned{.fabric = std::move(fabric),
                    .collective = std::move(collective),
                    .answer = std::move(answer),
                    .chosen_for = size_to_choose_for(),
                    .sizes = std::move(wanted),
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
    write_output(terminal, texts_.output, format_schedule(file));
    answer.plan.schedule = std::move(file.schedule);
    answer.planner = std::move(file.planner);
  }

  const CommandSyntax* syntax_ = nullptr;
  FabricOption fabric_;
  CollectiveOption collective_;
  CodecOption codec_;
  PlanTexts texts_;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace banyan::app
