// A file of jobs, "banyan": "jobs/1" (docs/predict.md), as `banyan predict job --jobs` takes it: what each job is,
// where it stands, when it starts and whose it is. Reading it opens no other file and makes no job.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/predict/simulation/placement.h"
#include "banyan/predict/train/train_options.h"

namespace banyan::answer {

// The place of a job on the fabric.
struct JobPlace {
  std::vector<std::string> ranks = {};  // by rank of the job: names of places; empty: as the next two say
  std::optional<predict::PlacementRule> placement = {};  // nothing: as the command says, and so the seed
  std::optional<uint64_t> seed = {};
};

struct JobEntry {
  // Exactly one of these three is there.
  std::optional<predict::TrainOptions> train;
  std::string goal, chakra;  // paths
  std::string groups;        // of chakra, may be empty

  std::string name, tenant;  // may be empty
  JobPlace place;
  Picoseconds start{0};
  double weight = 1;     // 0.001 to a million
  uint8_t priority = 0;  // lower is served first
};

// At least one job, at most 10,000. Throws Error{invalid_input} that names the line, the
// place ("jobs[2].train.tp") and the mend.
std::vector<JobEntry> parse_jobs_file(std::string_view json);
// Reads it, too. Errors begin with the path.
std::vector<JobEntry> read_jobs_file(const std::string& path);

}  // namespace banyan::answer
