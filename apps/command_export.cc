// banyan export: a plan as a file that a GPU runtime executes.
#include "apps/command.h"
#include "apps/plan_source.h"
#include "apps/report.h"
#include "banyan/base/file.h"
#include "banyan/schedule/export.h"

namespace banyan::app {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  banyan export plan.json --format msccl -o allgather.xml\n"
    "  banyan export plan.json --format mscclpp -o allreduce.json --name forest --in-place\n"
    "  banyan export plan.json --format msccl --min-bytes 1MB --max-bytes 256MB > allgather.xml\n"
    "\n"
    "What the file needs of the runtime is compared with what the runtime has: as a table on standard\n"
    "error, or with --json on standard output (the file then needs -o). A plan that cannot fit is refused\n"
    "with the number of trees that would; nothing is written.";

class ExportCommand : public Command {
 public:
  CLI::App* declare(CLI::App& program) override {
    CLI::App* command = program.add_subcommand("export", "write a plan for a GPU runtime (MSCCL, MSCCL++)");
    command->add_option("PLAN", plan_, "a plan file, as 'banyan plan -o' writes it")->required()->type_name("");
    const auto add = [&](const char* name, std::string& value, const char* type, const char* help) {
      return command->add_option(name, value, help)->type_name(type);
    };
    add("--format", format_, "FORMAT", "msccl (XML) or mscclpp (JSON)")->required();
    add("-o,--output", output_, "FILE", "where to; standard output without it");
    add("--name", name_, "NAME", "the algorithm's name in the file (default banyan)");
    command->add_flag("--in-place", in_place_, "input and output are one buffer");
    add("--min-bytes", min_bytes_, "SIZE", "the runtime may use it from this size on");
    add("--max-bytes", max_bytes_, "SIZE", "the runtime may use it up to this size");
    command->add_flag("--json", json_, "the fit table as one JSON object on standard output");
    command->footer(kFooter);
    return command;
  }

  ExitCode run(const Terminal& terminal) override {
    const ExportFormat format = parse_option("--format", [&] { return parse_export_format(format_); });
    const ExportOptions options = export_options();
    if (json_ && output_.empty()) {
      throw Error(ErrorCode::invalid_input, "--json needs -o FILE: standard output cannot hold the table and the file");
    }
    if (!output_.empty()) check_output_place(output_);
    Export result;
    {
      Progress progress(terminal, "reading the plan");
      const ScheduleFile file = read_valid_plan(plan_);
      progress.say("exporting");
      result = parse_option(plan_, [&] { return export_schedule(file.schedule, format, options); });
      if (!output_.empty()) write_file(output_, result.text);
    }
    if (json_) {
      terminal.print(fit_json(result.fit));
      return ExitCode::success;
    }
    terminal.note(fit_text(result.fit));
    if (output_.empty()) terminal.print(result.text);
    return ExitCode::success;
  }

 private:
  ExportOptions export_options() const {
    ExportOptions options{.in_place = in_place_};
    if (!name_.empty()) options.name = name_;
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

  std::string fit_json(const ExportFit& fit) const {
    Json rows = Json::array();
    for (const ExportFit::Row& row : fit.rows)
      rows.push_back({{"limit", row.limit}, {"needed", row.needed}, {"allowed", row.allowed}});
    const Json report = {{"format", format_}, {"file", output_}, {"fits", fit.fits()}, {"limits", rows}};
    return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

  // Goes to standard error, whose colours are not known: plain.
  std::string fit_text(const ExportFit& fit) const {
    Table table({"limit of the runtime", "needed", "allowed"});
    for (const ExportFit::Row& row : fit.rows)
      table.add({row.limit, std::to_string(row.needed), std::to_string(row.allowed)});
    return table.format(Terminal({}));
  }

  std::string plan_, format_, output_, name_, min_bytes_, max_bytes_;
  bool in_place_ = false, json_ = false;
};

}  // namespace

std::unique_ptr<Command> make_export_command() { return std::make_unique<ExportCommand>(); }

}  // namespace banyan::app
