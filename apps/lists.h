// Names that options take: models and devices of training steps, planners. As text, or with --json as one object; and
// for completions.
#pragma once

#include <string>
#include <vector>

#include "apps/syntax.h"
#include "apps/terminal.h"

namespace banyan::app {

enum class ListForm { text, json };

std::string list_models_and_devices(const Terminal& terminal, ListForm form);
// Models, devices and planners.
std::string list_predictable(const Terminal& terminal, ListForm form);
std::string list_planners(const Terminal& terminal, ListForm form);

std::vector<std::string> planned_collectives();
std::vector<std::string> element_types();
std::vector<std::string> reductions();
std::vector<std::string> codec_names();
std::vector<std::string> fabric_specs();  // "dgx-h100:", "torus:"
std::vector<std::string> nccl_gpus();     // of NCCL topology files

// Those that programs of the runtime read.
std::vector<Meaning> runtime_variables();
Meaning runtime_variable(std::string_view name);

}  // namespace banyan::app
