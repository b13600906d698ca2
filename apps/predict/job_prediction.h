// Shared by `banyan predict job` and `train`: their options, what is printed and written.
#pragma once

#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/plan/watched_simulation.h"
#include "apps/report.h"
#include "banyan/answer/job_answer.h"

namespace banyan::app {

// The files that an answer is written to; empty: none.
struct ReportFiles {
  std::string output = {}, html = {}, trace = {};
};

// The fabric, the options of the simulation, and the files that its answer is written to.
struct JobArguments {
  answer::JobOptions options;
  std::string fabric;
  ReportFiles files;
  bool json = false;
};
void declare_job_arguments(CommandSyntax& command, JobArguments& arguments);
// Throws Error that names --fabric, with an example where there is none.
Fabric fabric_of(const JobArguments& arguments, const std::string& example);
// Throws Error of an output that cannot be written (command.h).
void check_output_places(const ReportFiles& files);

// Runs `ask` with an observer that shows its progress and ends it when Ctrl-C is pressed.
template <typename Ask>
auto watched(const Terminal& terminal, Ask ask) {
  Progress progress(terminal, "simulating");
  WatchedSimulation watch(progress);
  return ask(watch);
}

// Writes what was asked for (--output, --html, --trace); a line for each.
std::string write_reports(const predict::ReportInput& input, const ReportFiles& files, const Terminal& terminal);

// A table of the links that were used most; those that look alike are one row. Nothing where no link was used.
std::string format_busiest_links(const Terminal& terminal, const predict::ReportInput& input);

std::string format_answer(const answer::JobQuestion& question, const answer::JobAnswer& answer,
                          const Terminal& terminal);
// The prediction as -o writes it, but without spans.
std::string answer_json(predict::ReportInput input);
ExitCode exit_code(const answer::JobAnswer& answer);

}  // namespace banyan::app
