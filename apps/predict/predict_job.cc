#include "apps/predict/predict_job.h"

#include "apps/option_rows.h"
#include "banyan/answer/read_jobs.h"

namespace banyan::app {

void declare_job_source(CommandSyntax& command, answer::JobSource& source) {
  command.word("TRACE", &source.goal, "a job in GOAL (LogGOPSim, ATLAHS)").paths = OptionSyntax::Paths::files;
  declare_options(command, answer::source_options(), source);
  command.group(CommandSyntax::kOwnGroup);
}

ExitCode run_predict_job(const Terminal& terminal, const answer::JobSource& source, const JobArguments& arguments) {
  const answer::JobQuestion question =
      read_jobs({.source = source, .fabric = fabric_of(arguments, "dgx-a100:4"), .fabric_name = arguments.fabric},
                arguments.options);
  check_output_places(arguments.files);
  const answer::JobAnswer answer = watched(terminal, [&](answer::JobObserver& observer) {
    return simulate_question(question, arguments.options, observer);
  });
  const predict::ReportInput report = report_of(question, answer);
  const std::string written = write_reports(report, arguments.files, terminal);
  if (arguments.json) {
    terminal.print(answer_json(report));
  } else {
    terminal.print(labelled(terminal, "job", question.title) + format_answer(question, answer, terminal) + written);
  }
  return exit_code(answer);
}

}  // namespace banyan::app
