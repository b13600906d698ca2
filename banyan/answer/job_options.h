// The options of `banyan predict job` as values, and as tables which the command line and Python read: those of every
// simulation of jobs, `predict train` among them, and those of the files that jobs are read from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "banyan/base/option_table.h"
#include "banyan/job/chakra/chakra.h"
#include "banyan/predict/simulation/job_simulation.h"
#include "banyan/predict/simulation/placement.h"

namespace banyan::answer {

// The places of jobs, how they are simulated, and what is asked besides.
struct JobOptions {
  predict::JobSimulationOptions simulation = {};  // those that are handed on as they are
  predict::PlacementRule placement = predict::PlacementRule::packed;
  uint64_t seed = 1;                     // of a random placement
  std::vector<std::string> events = {};  // link_events.h, as texts: the fabric gives them their meaning
  std::string costs = {};                // a file of measured collectives; empty: none
  std::string algorithm = "rings";       // planned_collectives.h
  bool unfolded = false, what_if = false;
};
inline predict::JobSimulationOptions& part_of(JobOptions& options) { return options.simulation; }
using JobOption = OptionRow<JobOptions>;

// The files that jobs are read from, and what they leave open. One of goal, chakra, kineto and jobs is given.
struct JobSource {
  std::string goal = {};              // a path
  std::string chakra = {};            // the prefix of paths
  job::chakra::Options reading = {};  // of Chakra traces, but for the next two
  bool data_dependencies_only = false, gathered_total = false;
  std::string groups = {};                          // of Chakra traces: a path, or empty
  std::vector<std::string> kineto = {}, host = {};  // paths by rank; host may be empty
  std::string jobs = {};                            // the path of a file of jobs (jobs_file.h)
  std::string gpu = {}, devices = {};               // a device, whose links count; a file with more of them
  bool no_check = false;                            // simulate without looking for mismatches first
};
inline job::chakra::Options& part_of(JobSource& source) { return source.reading; }
using SourceOption = OptionRow<JobSource>;

// In the order of a help: groups stand together. `goal` has no row: it is the first word of the command.
std::span<const JobOption> job_options();
std::span<const SourceOption> source_options();

}  // namespace banyan::answer
