// `banyan predict job`: traces, and several jobs at once (banyan/answer/read_jobs.h).
#pragma once

#include "apps/predict/job_prediction.h"
#include "apps/syntax.h"

namespace banyan::app {

void declare_job_source(CommandSyntax& command, answer::JobSource& source);
ExitCode run_predict_job(const Terminal& terminal, const answer::JobSource& source, const JobArguments& arguments);

}  // namespace banyan::app
