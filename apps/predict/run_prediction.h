// The output of `run --predict`: a run beside what the simulator says about the same schedule, size and slice.
//
// Bytes on links must agree exactly, whatever the machine: the ranks count what they send (run/trial/local.h), the
// simulator what the schedule asks for. Times agree only where links have the rates that the fabric says, as in a lab
// (docs/lab.md); on one machine they tell how far it is from that fabric.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/report.h"
#include "banyan/answer/timed_plan.h"
#include "banyan/run/trial/local.h"

namespace banyan::app {

struct RunPrediction {
  Picoseconds alpha{0};
  answer::TimedPlan timed;           // incomplete when Ctrl-C was pressed
  std::vector<uint64_t> link_bytes;  // exact_link_bytes()
};

// Predicts the run of the report, which moved so many bytes.
RunPrediction predict_run(const Schedule& schedule, uint64_t bytes, const run::LocalRunReport& report,
                          Picoseconds alpha, Progress& progress);

struct LinkAgreement {
  size_t links = 0, agreeing = 0;
  std::optional<LinkId> first_other = {};  // nothing when all agree
};
// Both by link of one fabric.
LinkAgreement compare_links(std::span<const uint64_t> sent, std::span<const uint64_t> predicted);

// The relative error of the predicted time: -0.2 when it is a fifth less than the measured one. Nothing if nothing was
// measured, or if the simulation did not come to its end.
std::optional<double> prediction_error(const run::LocalRunReport& report, const RunPrediction& prediction);

Json run_prediction_json(const Fabric& fabric, const run::LocalRunReport& report, const RunPrediction& prediction);
std::string format_run_prediction(const Terminal& terminal, const Fabric& fabric, const run::LocalRunReport& report,
                                  const RunPrediction& prediction);

}  // namespace banyan::app
