#include "banyan/predict/train/calibrate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "banyan/base/error.h"
#include "banyan/predict/cost/operators.h"

namespace banyan::predict {
namespace {

constexpr double kLossCap = 0.4;         // of |log ratio|: a row that is off by half measured something else
constexpr double kPull = 0.02;           // per squared log ratio of a figure to what it was
constexpr double kClearlyBetter = 0.98;  // another way to recompute must lower the loss by so much to be believed
constexpr size_t kStepsToRestart = 250;  // of the simplex
constexpr double kOutside = 0.05;        // added to the loss per figure out of bounds, besides how far

// A figure that is fitted, with the bounds of what hardware and frameworks can do.
struct Tuned {
  double least, most;
  double (*get)(const Device&);
  void (*set)(Device&, double);
};

double microseconds(Picoseconds time) { return static_cast<double>(time.count()) * 1e-6; }
Picoseconds from_microseconds(double time) { return Picoseconds(static_cast<int64_t>(std::llround(time * 1e6))); }

const std::array<Tuned, 8> kTuned = {{
    {0.4, 0.95, [](const Device& d) { return d.efficiency.matrix; },
     [](Device& d, double x) { d.efficiency.matrix = x; }},
    {0.2, 0.95, [](const Device& d) { return d.efficiency.memory; },
     [](Device& d, double x) { d.efficiency.memory = x; }},
    {0.1, 1.0, [](const Device& d) { return d.efficiency.unaligned; },
     [](Device& d, double x) { d.efficiency.unaligned = x; }},
    {1, 12, [](const Device& d) { return microseconds(d.efficiency.kernel_gap); },
     [](Device& d, double x) { d.efficiency.kernel_gap = from_microseconds(x); }},
    {1, 500, [](const Device& d) { return microseconds(d.efficiency.host_launch); },
     [](Device& d, double x) { d.efficiency.host_launch = from_microseconds(x); }},
    {0.2, 0.80, [](const Device& d) { return d.links.scale_up; }, [](Device& d, double x) { d.links.scale_up = x; }},
    {0.1, 1.0, [](const Device& d) { return d.links.network; }, [](Device& d, double x) { d.links.network = x; }},
    {1, 500, [](const Device& d) { return microseconds(d.links.latency); },
     [](Device& d, double x) { d.links.latency = from_microseconds(x); }},
}};
using Point = std::array<double, kTuned.size()>;

Point point_of(const Device& device) {
  Point point;
  for (size_t i = 0; i < point.size(); ++i) point[i] = kTuned[i].get(device);
  return point;
}

Device device_at(const Device& base, const Point& point) {
  Device device = base;
  for (size_t i = 0; i < point.size(); ++i)
    kTuned[i].set(device, std::clamp(point[i], kTuned[i].least, kTuned[i].most));
  return device;
}

double out_of_bounds(const Point& point) {
  double sum = 0;
  for (size_t i = 0; i < point.size(); ++i) {
    const double inside = std::clamp(point[i], kTuned[i].least, kTuned[i].most);
    if (inside != point[i]) sum += kOutside + std::abs(point[i] - inside) / (kTuned[i].most - kTuned[i].least);
  }
  return sum;
}

// How far figures are from those that the device came with. Too little to move what rows determine (their loss has a
// kink where it is least, this has none); it decides what they leave open.
double distance(const Point& point, const Point& start) {
  double sum = 0;
  for (size_t i = 0; i < point.size(); ++i) {
    const double ratio = std::log(std::max(point[i], 1e-9) / std::max(start[i], 1e-9));
    sum += ratio * ratio;
  }
  return kPull * sum;
}

struct Subset {
  const RowSet* set;
  Recompute recompute;
  std::vector<const TrainRow*> rows;
};

double predict(const TrainRow& row, Recompute recompute, const Device& device, const ClusterShape& cluster) {
  if (row.says_recompute || row.config.recompute == recompute)
    return estimate_step(row.config, device, cluster).seconds;
  TrainConfig config = row.config;
  config.recompute = recompute;
  return estimate_step(config, device, cluster).seconds;
}

class Fitter {
 public:
  explicit Fitter(const Device& base) : base_(base), start_(point_of(base)) {}

  double loss(const Point& point, std::span<const Subset> subsets) {
    ++evaluations_;
    const Device device = device_at(base_, point);
    double sum = 0;
    for (const Subset& subset : subsets) {
      double of_set = 0;
      for (const TrainRow* row : subset.rows) {
        const double predicted = predict(*row, subset.recompute, device, subset.set->cluster);
        of_set += std::min(kLossCap, std::abs(std::log(predicted / row->seconds)));
      }
      if (!subset.rows.empty()) sum += of_set / static_cast<double>(subset.rows.size());
    }
    return sum + out_of_bounds(point) + distance(point, start_);
  }

  // The simplex of Nelder and Mead (Computer Journal 7, 1965), restarted around its best until it gains no more.
  Point fit(Point best, std::span<const Subset> subsets, size_t most_steps, double* best_loss) {
    double least = loss(best, subsets);
    for (size_t used = 0; used < most_steps;) {
      const size_t steps = std::min(most_steps - used, kStepsToRestart);
      used += steps;
      const double before = least;
      descend(best, least, subsets, steps);
      if (before - least < 1e-5) break;
    }
    *best_loss = least;
    return best;
  }

  size_t evaluations() const { return evaluations_; }

 private:
  struct Vertex {
    Point at;
    double loss;
  };

  void descend(Point& best, double& least, std::span<const Subset> subsets, size_t steps) {
    std::vector<Vertex> simplex = {{best, least}};
    for (size_t i = 0; i < best.size(); ++i) {
      Point corner = best;
      corner[i] *= corner[i] * 1.15 < kTuned[i].most ? 1.15 : 0.87;
      simplex.push_back({corner, loss(corner, subsets)});
    }
    const auto by_loss = [](const Vertex& a, const Vertex& b) { return a.loss < b.loss; };
    for (size_t step = 0; step < steps; ++step) {
      std::ranges::stable_sort(simplex, by_loss);
      Point centre{};
      for (size_t v = 0; v + 1 < simplex.size(); ++v) {
        for (size_t i = 0; i < centre.size(); ++i) centre[i] += simplex[v].at[i] / static_cast<double>(best.size());
      }
      Vertex& worst = simplex.back();
      const auto away = [&](double factor) {
        Vertex vertex{centre, 0};
        for (size_t i = 0; i < centre.size(); ++i) vertex.at[i] += factor * (centre[i] - worst.at[i]);
        vertex.loss = loss(vertex.at, subsets);
        return vertex;
      };
      const Vertex reflected = away(1);
      if (reflected.loss < simplex.front().loss) {
        const Vertex expanded = away(2);
        worst = expanded.loss < reflected.loss ? expanded : reflected;
      } else if (reflected.loss < simplex[simplex.size() - 2].loss) {
        worst = reflected;
      } else if (const Vertex contracted = away(-0.5); contracted.loss < worst.loss) {
        worst = contracted;
      } else {
        for (size_t v = 1; v < simplex.size(); ++v) {
          for (size_t i = 0; i < centre.size(); ++i) simplex[v].at[i] = (simplex[v].at[i] + simplex[0].at[i]) / 2;
          simplex[v].loss = loss(simplex[v].at, subsets);
        }
      }
    }
    const Vertex& found = *std::ranges::min_element(simplex, by_loss);
    if (found.loss < least) best = found.at, least = found.loss;
  }

  const Device& base_;
  const Point start_;
  size_t evaluations_ = 0;
};

std::vector<const TrainRow*> pointers(const std::vector<TrainRow>& rows) {
  std::vector<const TrainRow*> all;
  for (const TrainRow& row : rows) all.push_back(&row);
  return all;
}

// At most so many rows of a set are used to fit, evenly spread: hundreds of alike rows add time, not knowledge.
constexpr size_t kRowsToFit = 250;
std::vector<const TrainRow*> thinned(std::vector<const TrainRow*> rows) {
  if (rows.size() <= kRowsToFit) return rows;
  std::vector<const TrainRow*> some;
  for (size_t i = 0; i < kRowsToFit; ++i) some.push_back(rows[i * rows.size() / kRowsToFit]);
  return some;
}

bool leaves_recompute_open(const RowSet& set) {
  return !set.recompute && std::ranges::any_of(set.rows, [](const TrainRow& row) { return !row.says_recompute; });
}

using Shape = std::pair<uint32_t, uint32_t>;
Shape shape_of(const TrainRow& row) { return {row.config.model.hidden, row.config.model.sequence}; }

class Calibrator {
 public:
  Calibrator(const Device& device, std::span<const RowSet> sets, const CalibrateOptions& options)
      : base_(device), sets_(sets), options_(options), fitter_(base_) {
    for (const RowSet& set : sets) {
      if (set.rows.empty()) throw Error(ErrorCode::invalid_input, "'" + set.name + "' holds no rows to calibrate from");
      subsets_.push_back(
          {&set, set.recompute.value_or(set.rows.front().config.recompute), thinned(pointers(set.rows))});
    }
    if (sets.empty()) throw Error(ErrorCode::invalid_input, "there are no rows to calibrate from");
  }

  Calibration run() {
    const Point best = fit_all();
    Calibration result{device_at(base_, best), {}, 0};
    for (const Subset& subset : subsets_) {
      SetResult set{
          .name = subset.set->name, .recompute = subset.recompute, .predicted = {}, .error = {}, .held_out = {}};
      for (const TrainRow& row : subset.set->rows)
        set.predicted.push_back(predict(row, subset.recompute, result.device, subset.set->cluster));
      set.error = rows_error(set.predicted, subset.set->rows);
      result.sets.push_back(std::move(set));
    }
    if (options_.cross_validate) cross_validate(result);
    result.evaluations = fitter_.evaluations();
    return result;
  }

 private:
  // Tries the ways to recompute for each set that leaves it open, the others as they are, until nothing gains; by fits
  // that are cut short, since a wrong way costs more than a last polish gains.
  Point fit_all() {
    double least = 0;
    const size_t short_steps = std::min(options_.most_steps, kStepsToRestart);
    Point best = fitter_.fit(point_of(base_), subsets_, short_steps, &least);
    bool gained = true;
    while (gained) {
      gained = false;
      for (Subset& subset : subsets_) {
        if (leaves_recompute_open(*subset.set)) gained = try_ways(subset, best, least) || gained;
      }
    }
    tell(0.3);
    best = fitter_.fit(best, subsets_, options_.most_steps, &least);
    tell(0.5);
    return best;
  }

  bool try_ways(Subset& subset, Point& best, double& least) {
    const Recompute before = subset.recompute;
    for (const Recompute way : {Recompute::none, Recompute::selective, Recompute::full}) {
      if (way == before) continue;
      const Recompute kept = subset.recompute;
      subset.recompute = way;
      double loss = 0;
      const Point point = fitter_.fit(point_of(base_), subsets_, std::min(options_.most_steps, kStepsToRestart), &loss);
      if (loss < least * kClearlyBetter) {
        least = loss, best = point;
      } else {
        subset.recompute = kept;
      }
    }
    return subset.recompute != before;
  }

  void cross_validate(Calibration& result) {
    std::set<Shape> shapes;
    for (const RowSet& set : sets_) {
      for (const TrainRow& row : set.rows) shapes.insert(shape_of(row));
    }
    if (shapes.size() < 2) return;
    std::vector<std::vector<double>> predicted;
    for (const RowSet& set : sets_) predicted.emplace_back(set.rows.size(), 0);
    size_t done = 0;
    for (const Shape& left_out : shapes) {
      std::vector<Subset> rest = subsets_;
      for (Subset& subset : rest) {
        std::vector<const TrainRow*> kept;
        for (const TrainRow* row : pointers(subset.set->rows)) {
          if (shape_of(*row) != left_out) kept.push_back(row);
        }
        subset.rows = thinned(std::move(kept));
      }
      double loss = 0;
      const Device device = device_at(base_, fitter_.fit(point_of(base_), rest, options_.most_steps, &loss));
      for (size_t i = 0; i < sets_.size(); ++i) {
        for (size_t k = 0; k < sets_[i].rows.size(); ++k) {
          const TrainRow& row = sets_[i].rows[k];
          if (shape_of(row) == left_out)
            predicted[i][k] = predict(row, subsets_[i].recompute, device, sets_[i].cluster);
        }
      }
      tell(0.5 + 0.5 * static_cast<double>(++done) / static_cast<double>(shapes.size()));
    }
    for (size_t i = 0; i < sets_.size(); ++i) result.sets[i].held_out = rows_error(predicted[i], sets_[i].rows);
  }

  void tell(double done) const {
    if (options_.progress) options_.progress(done);
  }

  const Device base_;
  std::span<const RowSet> sets_;
  const CalibrateOptions& options_;
  Fitter fitter_;
  std::vector<Subset> subsets_;
};

// Ranks from 1, equal values sharing the mean of theirs.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t a) { return values[a]; });
  std::vector<double> ranks(values.size());
  for (size_t i = 0; i < order.size();) {
    size_t end = i;
    while (end < order.size() && values[order[end]] == values[order[i]]) ++end;
    for (size_t k = i; k < end; ++k) ranks[order[k]] = static_cast<double>(i + end + 1) / 2;
    i = end;
  }
  return ranks;
}

}  // namespace

double spearman(std::span<const double> a, std::span<const double> b) {
  if (a.size() < 3 || a.size() != b.size()) return 0;
  const std::vector<double> x = ranks_of(a), y = ranks_of(b);
  const double mean = static_cast<double>(x.size() + 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean), xx += (x[i] - mean) * (x[i] - mean), yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

RowsError rows_error(std::span<const double> predicted, std::span<const TrainRow> rows) {
  RowsError result;
  std::vector<double> errors, measured;
  for (size_t i = 0; i < rows.size(); ++i) {
    errors.push_back(std::abs(predicted[i] / rows[i].seconds - 1));
    measured.push_back(rows[i].seconds);
    if (errors[i] > result.worst) result.worst = errors[i], result.worst_row = i;
  }
  if (errors.empty()) return result;
  result.mean = std::accumulate(errors.begin(), errors.end(), 0.0) / static_cast<double>(errors.size());
  std::nth_element(errors.begin(), errors.begin() + static_cast<ptrdiff_t>(errors.size() / 2), errors.end());
  result.median = errors[errors.size() / 2];
  result.rank_correlation = spearman(predicted, measured);
  return result;
}

Calibration calibrate(const Device& device, std::span<const RowSet> sets, const CalibrateOptions& options) {
  return Calibrator(device, sets, options).run();
}

}  // namespace banyan::predict
