// Shared by `banyan predict job` and `train`: the fabric and the places of ranks, the simulation, what is printed
// and written.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/command.h"
#include "apps/report.h"
#include "banyan/predict/cost/collective_cost.h"
#include "banyan/predict/report/report_input.h"
#include "banyan/predict/simulation/job_simulation.h"
#include "banyan/predict/simulation/what_if.h"

namespace banyan::app {

// As the user wrote them.
struct JobTexts {
  std::string fabric, placement = "packed", seed, window, costs, algorithm = "rings", collectives = "flow", output,
                      html, trace;
  std::vector<std::string> events;
  std::string on_failure = "stop";
  std::string eager;
  bool what_if = false, unfolded = false, json = false;
};
void declare_job_options(CommandSyntax& command, JobTexts& texts);
// --eager, or what the simulator takes.
Bytes eager_of(const JobTexts& texts);

// How long collectives and messages take on a fabric, besides what its links say.
struct CommunicationModel {
  predict::LinkEfficiency links;
  std::vector<predict::CollectiveCost> measured;
  std::string algorithm = "rings";  // banyan/answer/planned_collectives.h
};

struct JobQuestion {
  std::string title;  // of reports
  Fabric fabric;
  std::vector<predict::PlacedJob> jobs;
  CommunicationModel communication;
  std::vector<std::string> notes = {};                          // what a person should know besides, a line each
  std::string training = {};                                    // for ReportInput::training
  std::vector<std::pair<std::string, std::string>> facts = {};  // for the page (report_input.h)
};

struct JobAnswer {
  predict::JobSimulation simulation;
  std::vector<predict::WhatIf> what_if;
  bool interrupted = false;  // by Ctrl-C, in this or a simulation beside it

  ExitCode exit_code() const { return interrupted ? ExitCode::interrupted : ExitCode::success; }
};

// Simulates. Where there are several jobs, or links change, each job alone with the fabric as it was at first, too; and
// asks what would help where that is wanted and no job has failed.
JobAnswer simulate_question(const JobQuestion& question, const JobTexts& texts, const Terminal& terminal);

// Writes what was asked for (--output, --html, --trace); a line for each.
std::string write_reports(const JobQuestion& question, const JobAnswer& answer, const JobTexts& texts,
                          const Terminal& terminal);

// A table of the links that were used most; those that look alike are one row. Nothing where no link was used.
std::string format_busiest_links(const Terminal& terminal, const predict::ReportInput& input);

std::string format_answer(const JobQuestion& question, const JobAnswer& answer, const Terminal& terminal);
// The prediction as -o writes it, but without spans.
std::string answer_json(const JobQuestion& question, const JobAnswer& answer);

// --costs, or none.
std::vector<predict::CollectiveCost> load_costs(const JobTexts& texts);

}  // namespace banyan::app
