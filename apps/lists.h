// Names that options take: models and devices of training steps, planners. As text, or with --json as one object.
#pragma once

#include <string>

#include "apps/terminal.h"

namespace banyan::app {

enum class ListForm { text, json };

std::string list_models_and_devices(const Terminal& terminal, ListForm form);
std::string list_planners(const Terminal& terminal, ListForm form);

}  // namespace banyan::app
