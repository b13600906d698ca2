// Jobs simulated on a fabric: `banyan predict train`, `predict job` and Python ask here.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/answer/job_options.h"
#include "banyan/answer/jobs_file.h"
#include "banyan/predict/collective/footprint.h"
#include "banyan/predict/cost/collective_cost.h"
#include "banyan/predict/report/report_input.h"
#include "banyan/predict/simulation/what_if.h"

namespace banyan::answer {

// --costs, or none.
std::vector<predict::CollectiveCost> load_costs(const JobOptions& options);

// Takes the places of a job of so many ranks: those that it names, else by its rule or that of the options. Throws
// Error{invalid_input, not_found} that names the rank, or says how many are free.
std::vector<NodeId> take_places(predict::Placement& free, uint32_t ranks, const JobPlace& place,
                                const JobOptions& options);
// A job alone on a fabric. It must outlive what is returned.
predict::PlacedJob place_job(const Job& job, const Fabric& fabric, const JobPlace& place, const JobOptions& options);

// The model of how long collectives and messages take on a fabric, besides what its links say.
struct CommunicationModel {
  predict::LinkEfficiency links;
  std::vector<predict::CollectiveCost> measured;
  std::string algorithm = "rings";  // planned_collectives.h
};

struct JobQuestion {
  std::string title;  // of reports
  Fabric fabric;
  std::vector<predict::PlacedJob> jobs;
  CommunicationModel communication;
  std::vector<std::string> notes = {};                          // what a person should know besides, a line each
  std::string training = {};                                    // for ReportInput::training
  std::vector<std::pair<std::string, std::string>> facts = {};  // for the page (report_input.h)
  std::vector<std::shared_ptr<const Job>> kept = {};  // those that `jobs` point to, where nobody else has them
};

struct JobAnswer {
  predict::JobSimulation simulation = {};
  std::vector<predict::WhatIf> what_if = {};
  bool is_interrupted = false;  // by the observer, in this or a simulation beside it
};

// Hears which simulation is under way, and may end it (schedule_simulation.h).
class JobObserver : public predict::SimulationObserver {
 public:
  virtual void begins(const char* what) = 0;  // "simulating", "simulating each job alone", "asking what would help"
};

// Simulates all jobs together. If there are several, or links change, also simulates each job alone on the fabric as it
// was at first. Asks what would help if JobOptions::what_if is set and no job has failed. Throws what simulate_jobs
// throws, and Error that names the option. Keeps no reference to its arguments.
JobAnswer simulate_question(const JobQuestion& question, const JobOptions& options, JobObserver& observer);

// The time of a collective alone on the question's fabric: a fixed part, and a part per byte.
struct CollectiveLine {
  double fixed = 0, per_byte = 0;  // seconds
  bool is_in_box = false;          // whether the link that it holds longest is inside a box

  double seconds(double bytes) const { return fixed + per_byte * bytes; }
};
// Returns a function of calls of one kind and size, at least one, which groups begin at the same time: the time on this
// fabric, by this model, until the last is done. The fabric outlives the function. One thread.
std::function<CollectiveLine(std::span<const predict::CollectiveCall>)> collectives_alone(
    const Fabric& fabric, const CommunicationModel& communication);

// The report that is written and drawn of an answer.
predict::ReportInput report_of(const JobQuestion& question, const JobAnswer& answer);

}  // namespace banyan::answer
