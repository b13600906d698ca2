#include "apps/predict/job_prediction.h"

#include <algorithm>

#include "apps/lists.h"
#include "apps/option_rows.h"
#include "banyan/base/file.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/read.h"
#include "banyan/predict/report/chrome_trace.h"
#include "banyan/predict/report/html_report.h"
#include "banyan/predict/report/prediction_json.h"
#include "banyan/predict/report/summary.h"

namespace banyan::app {
namespace {

constexpr size_t kJobsShown = 20;

double seconds_of(Picoseconds time) { return std::chrono::duration<double>(time).count(); }

bool has_failed(const predict::PredictedJob& job) { return job.failed_at.has_value(); }

// "gpu0-gpu7, gpu12", not too long for a line.
std::string places(const predict::PlacedJob& job, const Fabric& fabric, size_t most) {
  const std::string names = name_ranges(job.nodes, fabric);
  return names.size() <= most ? names : names.substr(0, names.rfind(',', most)) + ", ...";
}

// How much longer a job takes than with the fabric to itself: "1.204 times".
std::string slowdown(const predict::PredictedJob& job) {
  if (has_failed(job)) return "failed";
  if (!job.alone) return "?";
  return format_decimals(seconds_of(job.end - job.begin) / seconds_of(*job.alone), 3) + " times";
}

std::string format_jobs(const answer::JobQuestion& question, const Prediction& prediction, const Terminal& terminal) {
  Table table({"job", "tenant", "begins", "ends", "takes", "slower than alone", "on"});
  for (size_t j = 0; j < std::min(kJobsShown, prediction.jobs.size()); ++j) {
    const predict::PredictedJob& job = prediction.jobs[j];
    table.add({harmless(job.name), job.tenant.empty() ? "-" : harmless(job.tenant), format_seconds(job.begin),
               format_seconds(job.end), format_seconds(job.end - job.begin), slowdown(job),
               places(question.jobs[j], question.fabric, 40)});
  }
  std::string text = "\n" + table.format(terminal);
  if (prediction.jobs.size() > kJobsShown) {
    text += "and " + plural(prediction.jobs.size() - kJobsShown, "more job") + ", which --json, -o and --html show\n";
  }
  return text;
}

std::string format_places(const answer::JobQuestion& question, const Terminal& terminal) {
  size_t used = 0;
  for (const predict::PlacedJob& job : question.jobs) used += job.nodes.size();
  std::string text = std::to_string(used) + " of " + plural(question.fabric.ranks().size(), "rank") + " of the fabric";
  if (question.jobs.size() == 1) text += ", in their order: " + places(question.jobs.front(), question.fabric, 160);
  return labelled(terminal, "on", text);
}

}  // namespace

void declare_job_arguments(CommandSyntax& command, JobArguments& arguments) {
  command.group("Fabric and placement");
  OptionSyntax& fabric = command.option("--fabric", &arguments.fabric, "FABRIC",
                                        "the fabric: a spec such as dgx-a100:64, a file, or text");
  fabric.values = fabric_specs();
  fabric.paths = OptionSyntax::Paths::files;
  declare_options(command, answer::job_options(), arguments.options);
  command.option("--html", &arguments.files.html, "FILE", "write a page with pictures, in one file");
  command.option("--trace", &arguments.files.trace, "FILE", "write a trace for Perfetto or chrome://tracing");
  command.option("-o,--output", &arguments.files.output, "FILE", "write the prediction as JSON");
  command.flag("--json", arguments.json, "print one JSON object");
  command.group(CommandSyntax::kOwnGroup);
}

Fabric fabric_of(const JobArguments& arguments, const std::string& example) {
  if (arguments.fabric.empty())
    throw Error(ErrorCode::invalid_input, "is required: a fabric such as " + example, "--fabric");
  return parse_option("--fabric", [&] { return fabric::load_fabric({.fabric = arguments.fabric}); });
}

void check_output_places(const ReportFiles& files) {
  check_output_places({{"--output", files.output}, {"--html", files.html}, {"--trace", files.trace}});
}

std::string write_reports(const predict::ReportInput& input, const ReportFiles& files, const Terminal& terminal) {
  std::string text;
  const auto write = [&](const std::string& path, auto format) {
    if (path.empty()) return;
    write_file(path, format(input));
    text += labelled(terminal, "written", path);
  };
  write(files.output, [](const auto& report) { return format_prediction(report); });
  write(files.html, [](const auto& report) { return html_report(report); });
  write(files.trace, [](const auto& report) { return chrome_trace(report); });
  return text;
}

std::string format_busiest_links(const Terminal& terminal, const predict::ReportInput& input) {
  constexpr size_t kShown = 5;
  const std::vector<predict::AlikeLinks> kinds = busiest_kinds(input, kShown);
  if (kinds.empty()) return "";
  Table table({"busiest links", "bandwidth", "used", "full"});
  for (const auto& [first, count] : kinds) {
    const Link& link = input.fabric->links()[first.link];
    std::string names = link_name(*input.fabric, link);
    if (count > 1) names += " and " + std::to_string(count - 1) + " like it";
    table.add({names, link.bandwidth.to_string(), format_percent(first.load), format_percent(first.full)});
  }
  return "\n" + table.format(terminal);
}

std::string format_answer(const answer::JobQuestion& question, const answer::JobAnswer& answer,
                          const Terminal& terminal) {
  const Prediction& prediction = answer.simulation.prediction;
  const predict::ReportInput input = report_of(question, answer);
  std::string text;
  if (!prediction.complete) {
    text += labelled(
        terminal, "interrupted",
        "at " + format_seconds(prediction.time) + " of virtual time: what follows is as of then, and no result");
  } else {
    // Of a training step, its own line has said it.
    if (question.training.empty()) text += labelled(terminal, "time", format_seconds(prediction.time));
    if (answer.is_interrupted) text += labelled(terminal, "interrupted", "before all that was asked for was simulated");
  }
  for (const std::string& note : question.notes) text += labelled(terminal, "note", harmless(note));
  text += labelled(terminal, "in words", in_words(input));
  text += format_places(question, terminal);
  const predict::TimeShares shares = time_shares(prediction);
  text += labelled(terminal, "ranks",
                   format_percent(shares.compute) + " computing, " + format_percent(shares.exposed) +
                       " exposed communication, " + format_percent(shares.waiting) + " waiting, " +
                       (shares.host > 0 ? format_percent(shares.host) + " host, " : "") +
                       format_percent(shares.bubble) + " bubble");
  text += labelled(terminal, "simulated",
                   std::to_string(answer.simulation.nodes_simulated) + " of " +
                       plural(answer.simulation.nodes, "node") + ": " + plural(answer.simulation.rank_kinds, "kind") +
                       " of ranks for " + plural(prediction.ranks.size(), "rank") +
                       (answer.simulation.collective_messages == 0
                            ? ""
                            : ", " + plural(answer.simulation.collective_messages, "message") + " of collectives"));
  if (prediction.window.bytes > 0) {
    text += labelled(terminal, "window", "sizes are off by " + format_percent(prediction.window.of_all) + " in all");
  }
  size_t failed_shown = 0;
  for (const predict::PredictedJob& job : prediction.jobs) {
    if (!has_failed(job) || ++failed_shown > kJobsShown) continue;
    text += labelled(terminal, "failed",
                     harmless(job.name) + " at " + format_seconds(*job.failed_at) + ", with a link that it used");
  }
  if (prediction.jobs.size() > 1) {
    text += format_jobs(question, prediction, terminal);
  } else if (prediction.jobs.front().alone) {
    text += labelled(terminal, "events",
                     "it takes " + slowdown(prediction.jobs.front()) + " what it takes without them, " +
                         format_seconds(*prediction.jobs.front().alone));
  }
  text += format_busiest_links(terminal, input);
  if (!answer.what_if.empty()) {
    Table table({"if doubled", "time", "gain"});
    for (const predict::WhatIf& row : answer.what_if) {
      table.add({row.resource, format_seconds(row.time), format_decimals(100 * row.gain, 1) + " %"});
    }
    text += "\n" + table.format(terminal);
  }
  return text;
}

std::string answer_json(predict::ReportInput input) {
  input.prediction.spans.clear();
  return format_prediction(input);
}

ExitCode exit_code(const answer::JobAnswer& answer) {
  return answer.is_interrupted ? ExitCode::interrupted : ExitCode::success;
}

}  // namespace banyan::app
