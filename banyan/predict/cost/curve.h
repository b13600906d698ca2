// The time of a collective over its size, from measurements: few straight pieces, because libraries switch protocols
// and a single line cannot follow that.
//
// A piece holds from its first size on: time = alpha + beta * bytes, with alpha >= 0 and beta >= 0, so that time never
// falls with size within a piece. At a switch it may step down, as measured ones do: NCCL 2.x on 8 V100 takes 313 us
// for 13 MiB and 255 us for 14 MiB.
//
// Fitting. Points are sorted and made one per size (their median), and weighted so that every octave of sizes counts
// the same, however densely it was measured: sweeps in equal steps hold a thousand large sizes and three small ones.
// The best division into K pieces minimises the weighted sum of squared relative errors; it is found exactly by dynamic
// programming, with least squares in closed form for each candidate piece, then reweighted by Huber's rule against
// outliers. K is chosen by cross-validation: the fewest pieces whose error on points left out is at most a tenth, or
// 0.1 % absolute, above the best's. So noise does not buy pieces, and a switch of protocol does.
//
// Complexity: O(K n^2) for n <= kMostCandidates sizes; with more, breaks are sought at kMostCandidates places only.
// Pure and deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/base/units.h"

namespace banyan::predict {

struct CollectivePoint {
  uint64_t bytes = 0;  // the total M, as job.h counts it
  double seconds = 0;
};

struct CurvePiece {
  uint64_t from = 0;  // bytes; the first piece holds below it, too
  double alpha = 0;   // seconds
  double beta = 0;    // seconds per byte
};

class CollectiveCurve {
 public:
  // `pieces` by ascending `from`, at least one.
  explicit CollectiveCurve(std::vector<CurvePiece> pieces);
  std::span<const CurvePiece> pieces() const { return pieces_; }
  double seconds(uint64_t bytes) const;

 private:
  std::vector<CurvePiece> pieces_;
};

struct CurveOptions {
  size_t most_pieces = 8;
  size_t fewest_points = 2;  // of a piece
};

struct CurveError {
  double mean = 0, worst = 0;  // of |predicted / measured - 1|, each point counting once
  uint64_t worst_bytes = 0;
};

struct CurveFit {
  CollectiveCurve curve;
  CurveError error;     // on the points it was fitted to
  CurveError held_out;  // on points that the fit had not seen, by cross-validation
};

constexpr size_t kMostCandidates = 1500;

// Throws Error{invalid_input} with fewer than three sizes, or a size or time that is zero or not finite.
CurveFit fit_curve(std::span<const CollectivePoint> points, const CurveOptions& options = {});

CurveError curve_error(const CollectiveCurve& curve, std::span<const CollectivePoint> points);

}  // namespace banyan::predict
