// Measured training steps: rows of model shape, parallel configuration and time, as CSV.
//
// The heading names the columns, matched without regard to case, blanks and punctuation; the time needs its unit.
// Known:
//   time or "iteration time" (ms, s, us); # GPUs; global batch; micro batch; hidden size; attention heads; layers;
//   sequence length; tensor, data, pipeline parallelism (or tp, dp, pp); vocabulary; recompute (none, selective, full);
//   zero; interleave; sequence parallel, fused attention (true or false)
// What else there is (a column of parameters, say) is passed over; unknown_train_columns names it. A missing
// column of parallelism is 1; number of GPUs must be tp * dp * pp where it is given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/predict/train/config.h"

namespace banyan::predict {

struct TrainRow {
  TrainConfig config;
  bool says_recompute = false;  // the row had a column for it
  double seconds = 0;
  uint32_t line = 0;  // of its file
};

// `base` gives what rows do not say: precision, vocabulary, recompute, gradients... Throws Error{invalid_input} with
// the line and column.
std::vector<TrainRow> parse_train_rows(std::string_view csv, const TrainConfig& base);

// Columns of the heading that parse_train_rows passes over, as they are written there.
std::vector<std::string> unknown_train_columns(std::string_view csv);

}  // namespace banyan::predict
