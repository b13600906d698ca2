// Jobs read from traces and files of jobs, checked and placed on a fabric: the question of `banyan predict job` and of
// Python's predict_job.
#pragma once

#include <string>

#include "banyan/answer/job_answer.h"

namespace banyan::answer {

// Jobs and the fabric that they are asked about.
struct JobsOnFabric {
  JobSource source;
  Fabric fabric;
  std::string fabric_name;  // as the user gave it: for titles; its device is the default of training steps
};

// Throws Error that names the option ("--gpu"), the file and the place in it: of what cannot be read, of jobs that
// cannot be carried out (job/check.h), which find no place, or do not fit into memory. Costs what the readers cost
// (job/goal, job/chakra, job/kineto).
JobQuestion read_jobs(const JobsOnFabric& jobs, const JobOptions& options);

}  // namespace banyan::answer
