// banyan export: a plan as a file that a GPU runtime executes.
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/report.h"
#include "banyan/answer/plan_check.h"
#include "banyan/base/file.h"
#include "banyan/schedule/export.h"

namespace banyan::app {
namespace {

class ExportCommand : public Command {
 public:
  CommandSyntax& declare(CommandSyntax& program) override {
    CommandSyntax& command = program.command("export", "Write a plan for a GPU runtime (MSCCL, MSCCL++).");
    OptionSyntax& plan = command.word("PLAN", &plan_, "a plan file, as 'banyan plan -o' writes it");
    plan.is_required = true;
    plan.paths = OptionSyntax::Paths::files;
    OptionSyntax& format = command.option("--format", &format_, "FORMAT", "msccl (XML) or mscclpp (JSON)");
    format.is_required = true;
    format.values = {"msccl", "mscclpp"};
    command.option("-o,--output", &output_, "FILE", "write the export to this file (default: standard output)");
    command.option("--name", &name_, "NAME", "name of the algorithm in the file (default banyan)");
    command.flag("--in-place", in_place_, "input and output are one buffer");
    command.option("--min-bytes", &min_bytes_, "SIZE", "smallest size for which the runtime may use it");
    command.option("--max-bytes", &max_bytes_, "SIZE", "largest size for which the runtime may use it");
    command
        .option("--chunks", &chunks_, "HOW",
                "power-of-two: for sizes that are powers of two (default); exact: as planned")
        .values = {"power-of-two", "exact"};
    command.flag("--json", json_, "print the table of limits as one JSON object; needs -o FILE");
    command.examples({"banyan export plan.json --format msccl -o allgather.xml",
                      "banyan export plan.json --format mscclpp -o allreduce.json --name forest --in-place",
                      "banyan export plan.json --format msccl --min-bytes 1MiB --max-bytes 256MiB > allgather.xml",
                      "banyan export plan.json --format msccl --chunks exact -o exact.xml"});
    command.notes(
        {"A runtime uses the file only for counts of elements that its number of chunks divides. Shares are therefore "
         "rounded to a power of two of chunks, at a loss of throughput that is printed; --chunks exact keeps the "
         "shares "
         "of the plan.",
         "A table compares what the file needs of the runtime with what the runtime has. It goes to standard error, or "
         "with --json to standard output. A plan that does not fit is refused with the number of trees that would fit; "
         "then nothing is written."});
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    if (output_ == "-") output_.clear();
    const schedule::ExportFormat format =
        parse_option("--format", [&] { return schedule::parse_export_format(format_); });
    const schedule::ExportOptions options = export_options();
    if (json_ && output_.empty()) {
      throw Error(ErrorCode::invalid_input, "--json needs -o FILE: standard output cannot hold the table and the file");
    }
    check_output_place(output_);
    schedule::Export result;
    {
      Progress progress(terminal, "reading the plan");
      const schedule::ScheduleFile file = answer::read_valid_plan(plan_);
      progress.say("exporting");
      result = parse_option(plan_, [&] { return export_schedule(file.schedule, format, options); });
      if (!output_.empty()) write_file(output_, result.text);
    }
    if (json_) {
      terminal.print(report_json(result));
      return ExitCode::success;
    }
    terminal.note(report_text(result));
    terminal.print(output_.empty() ? result.text : written(terminal, output_));
    return ExitCode::success;
  }

 private:
  schedule::ExportOptions export_options() const {
    schedule::ExportOptions options{.in_place = in_place_};
    if (!name_.empty()) options.name = name_;
    if (chunks_ == "exact") {
      options.chunks = schedule::ChunkCount::exact;
    } else if (!chunks_.empty() && chunks_ != "power-of-two") {
      throw Error(ErrorCode::invalid_input, "'" + chunks_ + "' is neither power-of-two nor exact", "--chunks");
    }
    if (!min_bytes_.empty())
      options.min_bytes = parse_option("--min-bytes", [&] { return Bytes::parse(min_bytes_).count(); });
    if (!max_bytes_.empty())
      options.max_bytes = parse_option("--max-bytes", [&] { return Bytes::parse(max_bytes_).count(); });
    if (options.max_bytes != 0 && options.min_bytes > options.max_bytes) {
      throw Error(ErrorCode::invalid_input, "'" + min_bytes_ + "' is above --max-bytes '" + max_bytes_ + "'; swap them",
                  "--min-bytes");
    }
    return options;
  }

  std::string report_json(const schedule::Export& result) const {
    Json rows = Json::array();
    for (const schedule::ExportFit::Row& row : result.fit.rows)
      rows.push_back({{"limit", row.limit}, {"needed", row.needed}, {"allowed", row.allowed}});
    const schedule::ExportSizes& sizes = result.sizes;
    const Json report = {{"format", format_},
                         {"file", output_},
                         {"fits", result.fit.fits()},
                         {"limits", rows},
                         {"needs", result.needs},
                         {"sizes",
                          {{"in_words", sizes.in_words()},
                           {"count_of", sizes.per_rank ? "rank" : "buffer"},
                           {"divisor", sizes.divisor},
                           {"exact_divisor", sizes.exact_divisor},
                           {"loss", sizes.loss}}}};
    return format_json(report);
  }

  // Goes to standard error, whose colours are not known: plain.
  std::string report_text(const schedule::Export& result) const {
    const Terminal plain({});
    Table table({"limit of the runtime", "needed", "allowed"});
    for (const schedule::ExportFit::Row& row : result.fit.rows)
      table.add({row.limit, std::to_string(row.needed), std::to_string(row.allowed)});
    const schedule::ExportSizes& sizes = result.sizes;
    std::string text = table.format(plain) + labelled(plain, "sizes", sizes.in_words());
    for (const std::string& need : result.needs) text += labelled(plain, "needs", need);
    if (sizes.divisor != sizes.exact_divisor) {
      text += labelled(plain, "shares",
                       "rounded, which costs " + format_decimals(100 * sizes.loss, 2) +
                           " % of the throughput; --chunks exact needs counts that " +
                           std::to_string(sizes.exact_divisor) + " divides");
    }
    return text;
  }

  std::string plan_, format_, output_, name_, min_bytes_, max_bytes_, chunks_;
  bool in_place_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_export_command() { return std::make_unique<ExportCommand>(); }

}  // namespace banyan::app
