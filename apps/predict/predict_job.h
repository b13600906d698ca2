// `banyan predict job`: traces, and several jobs at once.
//
// A file of jobs, "banyan": "jobs/1" (docs/predict.md), names for each job what it is (a trace, or the options of
// `predict train`), where it stands, when it starts, and whose it is.
#pragma once

#include <string>
#include <vector>

#include "apps/predict/job_prediction.h"
#include "apps/syntax.h"

namespace banyan::app {

struct TracedJobTexts {
  std::string goal, chakra, groups, kineto, host, jobs, flops, memory, dimensions, gpu, devices;
  bool no_control = false, gathered_total = false, no_check = false;
};
void declare_traced_job_options(CommandSyntax& command, TracedJobTexts& texts);
ExitCode run_traced_job(const Terminal& terminal, const TracedJobTexts& traced, const JobTexts& texts);

}  // namespace banyan::app
