// `banyan predict train` in words: its options, what is to be trained, whether it fits into memory, how long a step
// takes.
#pragma once

#include <string>

#include "apps/report.h"
#include "apps/syntax.h"
#include "banyan/answer/step_compression.h"
#include "banyan/answer/train_step.h"
#include "banyan/predict/train/memory.h"

namespace banyan::app {

void declare_train_options(CommandSyntax& command, predict::TrainOptions& options);

// Lines of "label  text" and a table by stage. That it does not fit comes first.
std::string format_train_setup(const Terminal& terminal, const answer::TrainSetup& setup,
                               const predict::MemoryReport& memory);
// "12.3 s a step, 45.6 % of the peak in model FLOPs".
std::string format_step(const answer::TrainSetup& setup, double seconds);
// The share of the computing that is launches by the host and gaps between kernels, in words.
std::string format_launches(const Job& job);

// The step's time with each code that was tried, and the code of each bucket; buckets that are alike share a row.
std::string format_compression(const Terminal& terminal, const answer::StepCompression& compression);

}  // namespace banyan::app
