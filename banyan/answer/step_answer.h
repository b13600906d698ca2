// A training step predicted: `banyan predict train` and Python's predict_step ask here.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "banyan/answer/job_answer.h"
#include "banyan/answer/step_compression.h"
#include "banyan/answer/train_step.h"

namespace banyan::answer {

struct StepQuestion {
  TrainSetup setup;
  bool ignore_memory = false;  // predict also what does not fit
  Fabric fabric;
  std::string fabric_name;  // for titles
  JobPlace place = {};
  JobOptions options = {};
};

struct StepAnswer {
  TrainSetup setup;
  predict::MemoryReport memory;
  std::shared_ptr<const Job> job = nullptr;  // null where the step does not fit and was not to be predicted anyway
  JobQuestion question;                      // whose jobs point to it
  JobAnswer answer = {};                     // without it, nothing
  std::optional<StepCompression> compression = {};  // where codes were asked for, and no simulation was interrupted

  bool is_refused() const { return job == nullptr; }
};

// Says whether the step fits into memory and, where it does, simulates it. Throws Error that names the option.
StepAnswer predict_step(StepQuestion question, JobObserver& observer);

// The report of a refused step has the memory and no time.
predict::ReportInput report_of(const StepAnswer& answer);

}  // namespace banyan::answer
