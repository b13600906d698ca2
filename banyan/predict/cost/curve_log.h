// Measured collectives, as nccl-tests and its like print them.
//
//   the table of nccl-tests (and rccl-tests): '#' lines, of which one heads the columns "size ... time ..." and the
//   next gives their units; of the comments, "Rank n" lines are counted and the collective is taken from the program's
//   name where a line holds it ("all_reduce_perf") CSV with a heading: a column size or bytes, (B) when it has no other
//   unit, and one of time with its unit, as in "size(B),count,type,time(ns),busbw(GB/s),time(ns),busbw(GB/s)" or
//   "bytes,time_us"
//
// Where there are two columns of time, the first is out of place, the second in place.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/job/job.h"
#include "banyan/predict/cost/curve.h"

namespace banyan::predict {

struct CurveLog {
  std::vector<CollectivePoint> points;  // in the order of the file; sizes as job.h counts them
  std::optional<uint32_t> ranks;        // where the log says so
  std::optional<CollectiveKind> collective;
};

struct CurveLogOptions {
  bool in_place = false;
};

// Throws Error{invalid_input} with the line's number and what is expected there.
CurveLog parse_curve_log(std::string_view text, const CurveLogOptions& options = {});

}  // namespace banyan::predict
