// ReportInput: all that is known after `banyan predict`, in one value: what a file of a prediction holds
// (prediction_json.h) and what the page shows (html_report.h). Every part may be missing: a sweep has points and no
// spans, a prediction read from elsewhere may have no fabric.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "banyan/fabric/fabric.h"
#include "banyan/predict/simulation/prediction.h"

namespace banyan::predict {

struct ReportInput {
  Prediction prediction;
  std::optional<Fabric> fabric = {};  // the numbers of prediction.links and of ranks' nodes are this one's
  std::vector<PredictedPoint> points = {};
  std::vector<WhatIf> what_if = {};
};

// How much of it a page holds at most; what is left out, the page says.
struct ReportLimits {
  size_t spans = 150'000;    // whole ranks are kept, evenly spread; of a single larger one its longest spans
  size_t ranks = 4'096;      // rows of the breakdown; beyond, neighbours share one
  size_t links = 300;        // rows of the table, the busiest
  size_t lines = 6'000;      // lines of the drawing, the busiest
  size_t events = 2'000;     // marks of links that change; of one link or line the first times it is down
  size_t samples = 400'000;  // of load over time, of all lines and links
};

}  // namespace banyan::predict
