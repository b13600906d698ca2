// banyan export: a plan as a file that a GPU runtime executes.
#include <nlohmann/json.hpp>

#include "apps/command.h"
#include "apps/option_values.h"
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
    command.file_word("PLAN", plan_, "a plan file, as 'banyan plan -o' writes it");
    OptionSyntax& format = command.option("--format", &format_, "FORMAT", "msccl (XML) or mscclpp (JSON)");
    format.is_required = true;
    format.values = {"msccl", "mscclpp"};
    command.option("-o,--output", &output_, "FILE", "write the export to this file (default: standard output)");
    command.option("--name", &options_.name, "NAME", "name of the algorithm in the file (default banyan)");
    command.flag("--in-place", options_.in_place, "input and output are one buffer");
    const auto bytes_of = [](const std::string& text) { return Bytes::parse(text).count(); };
    command.option("--min-bytes", into(options_.min_bytes, bytes_of), "SIZE",
                   "smallest size for which the runtime may use it");
    command.option("--max-bytes", into(options_.max_bytes, bytes_of), "SIZE",
                   "largest size for which the runtime may use it");
    command
        .option("--chunks", into(options_.chunks, parse_chunks), "HOW",
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
    if (options_.max_bytes != 0 && options_.min_bytes > options_.max_bytes) {
      throw Error(ErrorCode::invalid_input,
                  in_quotes(Bytes(options_.min_bytes).to_string()) + " is above --max-bytes " +
                      in_quotes(Bytes(options_.max_bytes).to_string()) + "; swap them",
                  "--min-bytes");
    }
    if (json_ && output_.empty()) {
      throw invalid("--json needs -o FILE: standard output cannot hold the table and the file");
    }
    check_output_place(output_);
    schedule::Export result;
    {
      Progress progress(terminal, "reading the plan");
      const schedule::ScheduleFile file = answer::read_valid_plan(plan_);
      progress.say("exporting");
      result = parse_option(plan_, [&] { return export_schedule(file.schedule, format, options_); });
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
  static schedule::ChunkCount parse_chunks(const std::string& text) {
    if (text == "exact") return schedule::ChunkCount::exact;
    if (text == "power-of-two") return schedule::ChunkCount::power_of_two;
    throw invalid(in_quotes(text) + " is neither power-of-two nor exact");
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

  std::string plan_, format_, output_;
  schedule::ExportOptions options_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_export_command() { return std::make_unique<ExportCommand>(); }

}  // namespace banyan::app
