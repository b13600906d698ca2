// Device efficiencies from measured training steps.
//
// One set for a type of device, whatever the rows: eight figures with a physical meaning (kTuned below names them, and
// docs/predict-costs.md what they stand for) are fitted so that estimate_step comes close to all rows at once. Nothing
// is tuned per row, model or size of job.
//
// The loss is the mean of |log(predicted / measured)|, capped for rows that are far off (a row can have measured
// something else, such as an allocator that ran out); sets of rows count the same, however many rows they have. It is
// minimised by Nelder and Mead's simplex from the device's figures, restarted; figures stay within physical bounds.
// Deterministic.
//
// Error on unseen rows is found by cross-validation over models: all rows of a shape (hidden size and sequence length)
// are left out, the rest is fitted, the left-out rows are predicted.
//
// Measurements often do not say whether activations were recomputed; if a set leaves it open, all ways are tried for
// the set as a whole, and the best is taken and reported.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/predict/cost/devices.h"
#include "banyan/predict/train/estimate.h"
#include "banyan/predict/train/rows.h"

namespace banyan::predict {

struct RowSet {
  std::string name;  // of its file
  std::vector<TrainRow> rows;
  ClusterShape cluster;
  std::optional<Recompute> recompute;  // of rows that do not say; none: found
};

struct RowsError {
  double mean = 0, median = 0, worst = 0;  // of |predicted / measured - 1|
  size_t worst_row = 0;
  double rank_correlation = 0;  // Spearman's, 1 for the right order; 0 with fewer than three rows
};

struct SetResult {
  std::string name;
  Recompute recompute = Recompute::none;
  std::vector<double> predicted;  // seconds, by row
  RowsError error;
  std::optional<RowsError> held_out;  // by cross-validation; none where all rows are of one shape
};

struct Calibration {
  Device device;  // the one given, with fitted efficiencies
  std::vector<SetResult> sets;
  size_t evaluations = 0;
};

struct CalibrateOptions {
  bool cross_validate = true;
  size_t most_steps = 1200;  // of the simplex
  std::function<void(double done)> progress;
};

// Throws Error{invalid_input} when there are no rows, or no rate for their precision.
Calibration calibrate(const Device& device, std::span<const RowSet> sets, const CalibrateOptions& options = {});

// Predictions for rows as they are, without fitting.
RowsError rows_error(std::span<const double> predicted, std::span<const TrainRow> rows);

double spearman(std::span<const double> a, std::span<const double> b);

}  // namespace banyan::predict
