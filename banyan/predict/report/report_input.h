// ReportInput: all that is known after `banyan predict`, in one value: what a file of a prediction holds
// (prediction_json.h) and what the page shows (html_report.h). Every part may be missing: a sweep has points and no
// spans, a prediction read from elsewhere may have no fabric.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/predict/simulation/prediction.h"

namespace banyan::predict {

// The size of a job, and the part of it that was simulated: nodes and ranks that are alike are simulated once.
struct SimulatedCounts {
  uint64_t nodes = 0, nodes_simulated = 0;  // of all ranks
  uint32_t rank_kinds = 0;
  uint64_t messages = 0;  // of collectives, where they are carried out by messages
};

struct ReportInput {
  Prediction prediction;
  std::optional<Fabric> fabric = {};  // the numbers of prediction.links and of ranks' nodes are this one's
  std::vector<PredictedPoint> points = {};
  std::vector<WhatIf> what_if = {};
  std::vector<std::string> notes = {};            // what a person should know besides, a line each
  std::optional<SimulatedCounts> simulated = {};  // of jobs
  std::string training = {};                      // of a training step, an object of JSON: prediction.md says what
  // Figures on the page beside the times: {"Memory", "fits: 61.2 GiB of 75.0 GiB"}. Not part of the file.
  std::vector<std::pair<std::string, std::string>> facts = {};
};

// The most that a page holds of it; the page says what is left out.
struct ReportLimits {
  size_t spans = 150'000;    // whole ranks are kept, evenly spread; of a single larger one its longest spans
  size_t ranks = 4'096;      // rows of the breakdown; beyond, neighbours share one
  size_t links = 300;        // rows of the table, the busiest
  size_t lines = 6'000;      // lines of the drawing, the busiest
  size_t events = 2'000;     // marks of links that change; of one link or line the first times it is down
  size_t samples = 400'000;  // of load over time, of all lines and links
};

}  // namespace banyan::predict
