#include "banyan/predict/cost/curve.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::predict {
namespace {

constexpr size_t kFolds = 5;
constexpr int kReweightings = 3;
constexpr double kHuber = 2.0;         // in median absolute deviations
constexpr double kNoiseFloor = 1e-4;   // relative; nothing is measured better than this
constexpr double kShareWorse = 0.1;    // fewer pieces may have an error larger by so much of it,
constexpr double kNoWorseThan = 1e-3;  // or by this

// Weighted sums of a range of points, from which the best line follows. Errors are relative: each point's residual is
// divided by its time, so x and 1 are scaled by 1 / t and the wanted value is 1.
struct Sums {
  double uu = 0, uv = 0, vv = 0, u = 0, v = 0, w = 0;  // u = 1 / t (alpha's column), v = x / t (beta's)
  void add(double weight, double x, double t) {
    const double a = 1 / t, b = x / t;
    uu += weight * a * a, uv += weight * a * b, vv += weight * b * b;
    u += weight * a, v += weight * b, w += weight;
  }
  Sums operator-(const Sums& other) const {
    return {uu - other.uu, uv - other.uv, vv - other.vv, u - other.u, v - other.v, w - other.w};
  }
};

struct Line {
  double alpha = 0, beta = 0, cost = INFINITY;
};

double cost_of(const Sums& s, double alpha, double beta) {
  return std::max(0.0, alpha * alpha * s.uu + 2 * alpha * beta * s.uv + beta * beta * s.vv - 2 * alpha * s.u -
                           2 * beta * s.v + s.w);
}

// Least squares with neither coefficient below zero: the free optimum, or the better of both edges.
Line best_line(const Sums& s) {
  const double determinant = s.uu * s.vv - s.uv * s.uv;
  if (determinant > 1e-12 * s.uu * s.vv) {
    const double alpha = (s.u * s.vv - s.v * s.uv) / determinant, beta = (s.v * s.uu - s.u * s.uv) / determinant;
    if (alpha >= 0 && beta >= 0) return {alpha, beta, cost_of(s, alpha, beta)};
  }
  const Line flat{s.u / s.uu, 0, cost_of(s, s.u / s.uu, 0)};
  const Line proportional{0, s.v / s.vv, cost_of(s, 0, s.v / s.vv)};
  return flat.cost < proportional.cost ? flat : proportional;
}

// Best divisions of the points into 1 .. most pieces.
class Divisions {
 public:
  Divisions(std::span<const CollectivePoint> points, std::span<const double> weights, const CurveOptions& options)
      : points_(points) {
    const size_t n = points.size();
    scale_ = static_cast<double>(points.back().bytes);
    prefix_.resize(n + 1);
    for (size_t i = 0; i < n; ++i) {
      prefix_[i + 1] = prefix_[i];
      prefix_[i + 1].add(weights[i], static_cast<double>(points[i].bytes) / scale_, points[i].seconds);
    }
    const size_t stride = (n + kMostCandidates - 1) / kMostCandidates;
    for (size_t i = 0; i < n; i += stride) cuts_.push_back(i);
    cuts_.push_back(n);
    solve(options);
  }

  size_t most() const { return best_.size(); }
  // The pieces of the best division into `count`, which is at most most().
  CollectiveCurve curve(size_t count) const {
    std::vector<CurvePiece> pieces(count);
    size_t end = cuts_.size() - 1;
    for (size_t k = count; k-- > 0;) {
      const size_t begin = from_[k][end];
      const Line line = best_line(prefix_[cuts_[end]] - prefix_[cuts_[begin]]);
      pieces[k] = {points_[cuts_[begin]].bytes, line.alpha, line.beta / scale_};
      end = begin;
    }
    return CollectiveCurve(std::move(pieces));
  }

 private:
  void solve(const CurveOptions& options) {
    const size_t places = cuts_.size();
    std::vector<double> cost(places, INFINITY);
    cost[0] = 0;
    for (size_t k = 0; k < options.most_pieces; ++k) {
      std::vector<double> next(places, INFINITY);
      std::vector<uint32_t> from(places, 0);
      for (size_t end = 1; end < places; ++end) {
        for (size_t begin = 0; begin < end; ++begin) {
          if (!(cost[begin] < INFINITY) || cuts_[end] - cuts_[begin] < options.fewest_points) continue;
          const double all = cost[begin] + best_line(prefix_[cuts_[end]] - prefix_[cuts_[begin]]).cost;
          if (all < next[end]) next[end] = all, from[end] = static_cast<uint32_t>(begin);
        }
      }
      if (!(next.back() < INFINITY)) break;
      best_.push_back(next.back());
      from_.push_back(std::move(from));
      cost = std::move(next);
    }
  }

  std::span<const CollectivePoint> points_;
  double scale_ = 1;
  std::vector<Sums> prefix_;
  std::vector<size_t> cuts_;  // where pieces may begin, and the end
  std::vector<double> best_;
  std::vector<std::vector<uint32_t>> from_;  // by number of pieces less one, then by end: where the last begins
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double relative_error(const CollectiveCurve& curve, const CollectivePoint& point) {
  return curve.seconds(point.bytes) / point.seconds - 1;
}

// Each point stands for the sizes around it, on a log scale; halfway between counting points and counting octaves. The
// mean weight is 1.
std::vector<double> octave_weights(std::span<const CollectivePoint> points) {
  const size_t n = points.size();
  const auto log_size = [&](size_t i) { return std::log2(static_cast<double>(points[i].bytes)); };
  std::vector<double> weights(n);
  for (size_t i = 0; i < n; ++i) {
    const double below = i > 0 ? log_size(i) - log_size(i - 1) : log_size(1) - log_size(0);
    const double above = i + 1 < n ? log_size(i + 1) - log_size(i) : log_size(n - 1) - log_size(n - 2);
    // An octave without a point is nobody's: one point must not stand for a gap of many.
    weights[i] = std::sqrt((std::min(below, 1.0) + std::min(above, 1.0)) / 2);
  }
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (double& weight : weights) weight *= static_cast<double>(n) / sum;
  return weights;
}

// Points far off the curve count less: Huber's weights, with the scale taken from the median of the errors.
std::vector<double> huber_weights(const CollectiveCurve& curve, std::span<const CollectivePoint> points) {
  std::vector<double> errors(points.size());
  for (size_t i = 0; i < points.size(); ++i) errors[i] = std::abs(relative_error(curve, points[i]));
  const double limit = kHuber * 1.4826 * std::max(median(errors), kNoiseFloor);
  for (double& error : errors) error = error <= limit ? 1 : limit / error;
  return errors;
}

CollectiveCurve fit_pieces(std::span<const CollectivePoint> points, size_t count, const CurveOptions& options) {
  CurveOptions exactly = options;
  exactly.most_pieces = count;
  const std::vector<double> base = octave_weights(points);
  const Divisions first(points, base, exactly);
  CollectiveCurve curve = first.curve(std::min(count, first.most()));
  for (int round = 0; round < kReweightings; ++round) {
    std::vector<double> weights = huber_weights(curve, points);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] *= base[i];
    const Divisions divisions(points, weights, exactly);
    curve = divisions.curve(std::min(count, divisions.most()));
  }
  return curve;
}

// Every size once, in order.
std::vector<CollectivePoint> clean(std::span<const CollectivePoint> points) {
  std::map<uint64_t, std::vector<double>> by_size;
  for (const CollectivePoint& point : points) {
    if (point.bytes == 0 || !(point.seconds > 0) || !std::isfinite(point.seconds))
      throw invalid("a measured point of " + Bytes(point.bytes).to_string() +
                    " has no size or no time above zero; leave it out");
    by_size[point.bytes].push_back(point.seconds);
  }
  if (by_size.size() < 3)
    throw invalid("a curve needs measurements of at least 3 sizes, and there are " + std::to_string(by_size.size()));
  std::vector<CollectivePoint> result;
  for (auto& [bytes, times] : by_size) result.push_back({bytes, median(std::move(times))});
  return result;
}

// Errors on points left out, by number of pieces less one; each point is left out once. Both ends never are (their
// errors stay 0): without them the rest would be extrapolated, which says nothing about the number of pieces.
std::vector<std::vector<double>> left_out_errors(std::span<const CollectivePoint> points, const CurveOptions& options) {
  std::vector<std::vector<double>> errors(options.most_pieces, std::vector<double>(points.size(), 0));
  const size_t folds = std::min(kFolds, points.size());
  for (size_t fold = 0; fold < folds; ++fold) {
    std::vector<CollectivePoint> kept;
    for (size_t i = 0; i < points.size(); ++i) {
      if (i % folds != fold || i == 0 || i + 1 == points.size()) kept.push_back(points[i]);
    }
    const Divisions divisions(kept, octave_weights(kept), options);
    for (size_t k = 0; k < options.most_pieces; ++k) {
      const CollectiveCurve curve = divisions.curve(std::min(k + 1, divisions.most()));
      for (size_t i = fold; i + 1 < points.size(); i += folds) {
        if (i > 0) errors[k][i] = relative_error(curve, points[i]);
      }
    }
  }
  return errors;
}

double mean_absolute(std::span<const double> errors, std::span<const double> weights) {
  double sum = 0, all = 0;
  for (size_t i = 0; i < errors.size(); ++i) sum += weights[i] * std::abs(errors[i]), all += weights[i];
  return sum / all;
}

// The fewest pieces that are not clearly worse than the best number of them. (One standard error, the usual rule, is
// too lenient here: errors at a switch are large and few, so their standard error is nearly as large as they are.)
size_t choose_pieces(std::span<const std::vector<double>> errors, std::span<const double> weights) {
  std::vector<double> means;
  for (const std::vector<double>& of_count : errors) means.push_back(mean_absolute(of_count, weights));
  const double least = *std::ranges::min_element(means);
  size_t count = 1;
  while (means[count - 1] > least + std::max(kShareWorse * least, kNoWorseThan)) ++count;
  return count;
}

}  // namespace

CollectiveCurve::CollectiveCurve(std::vector<CurvePiece> pieces) : pieces_(std::move(pieces)) {
  CHECK(!pieces_.empty());
  for (size_t i = 1; i < pieces_.size(); ++i) CHECK(pieces_[i - 1].from < pieces_[i].from) << "pieces are out of order";
}

double CollectiveCurve::seconds(uint64_t bytes) const {
  const auto after = std::ranges::upper_bound(pieces_, bytes, {}, &CurvePiece::from);
  const CurvePiece& piece = after == pieces_.begin() ? pieces_.front() : *(after - 1);
  return piece.alpha + piece.beta * static_cast<double>(bytes);
}

CurveError curve_error(const CollectiveCurve& curve, std::span<const CollectivePoint> points) {
  CurveError result;
  for (const CollectivePoint& point : points) {
    const double error = std::abs(relative_error(curve, point));
    result.mean += error / static_cast<double>(points.size());
    if (error > result.worst) result.worst = error, result.worst_bytes = point.bytes;
  }
  return result;
}

CurveFit fit_curve(std::span<const CollectivePoint> all, const CurveOptions& asked) {
  const std::vector<CollectivePoint> points = clean(all);
  CurveOptions options = asked;
  // A piece must still have its points when a fold is left out.
  options.fewest_points = std::max<size_t>(1, std::min(asked.fewest_points, points.size() / 2));
  options.most_pieces = std::max<size_t>(1, std::min(asked.most_pieces, points.size() / (options.fewest_points + 1)));
  const std::vector<std::vector<double>> errors = left_out_errors(points, options);
  const size_t count = choose_pieces(errors, octave_weights(points));
  CurveFit fit{fit_pieces(points, count, options), {}, {}};
  fit.error = curve_error(fit.curve, points);
  for (size_t i = 0; i < points.size(); ++i) {
    const double error = std::abs(errors[count - 1][i]);
    fit.held_out.mean += error / static_cast<double>(points.size());
    if (error > fit.held_out.worst) fit.held_out.worst = error, fit.held_out.worst_bytes = points[i].bytes;
  }
  return fit;
}

}  // namespace banyan::predict
