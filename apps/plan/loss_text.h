// banyan fabric --loss-report: lossy links, and which of them to disable.
#pragma once

#include <string>

#include "apps/report.h"
#include "banyan/design/loss_report.h"

namespace banyan::app {

// "0.75": above 0 and at most 1. Throws Error{invalid_input} otherwise.
Fraction parse_capacity_share(const std::string& text);

std::string loss_report_text(const Terminal& terminal, const design::LossReport& report);
Json loss_report_json(const design::LossReport& report);

}  // namespace banyan::app
