// Graphs without a known shape: places for things so that what is near in the graph is near on the page.
#include <algorithm>
#include <cmath>

#include "banyan/picture/layout.h"

namespace banyan::picture {

bool passes_through(Point from, Point to, Point middle, Extent thing) {
  // Clip the line to the rectangle: Liang and Barsky.
  double first = 0, last = 1;
  const auto clip = [&](double step, double room) {
    if (step == 0) return room >= 0;
    (step < 0 ? first : last) = step < 0 ? std::max(first, room / step) : std::min(last, room / step);
    return first <= last;
  };
  const double dx = to.x - from.x, dy = to.y - from.y;
  const double x = from.x - middle.x, y = from.y - middle.y, w = thing.width / 2, h = thing.height / 2;
  return clip(-dx, x + w) && clip(dx, w - x) && clip(-dy, y + h) && clip(dy, h - y);
}

namespace {

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;

// Hops between all things, each way round.
std::vector<double> hops_between(size_t count, const Pairs& pairs) {
  std::vector<std::vector<uint32_t>> next(count);
  for (const auto& [a, b] : pairs) {
    next[a].push_back(b);
    next[b].push_back(a);
  }
  std::vector<double> hops(count * count, static_cast<double>(count));  // of what is not joined
  for (uint32_t from = 0; from < count; ++from) {
    double* const row = &hops[from * count];
    std::vector<uint32_t> queue = {from};
    row[from] = 0;
    for (size_t i = 0; i < queue.size(); ++i) {
      for (const uint32_t to : next[queue[i]]) {
        if (to == from || row[to] < static_cast<double>(count)) continue;
        row[to] = row[queue[i]] + 1;
        queue.push_back(to);
      }
    }
  }
  return hops;
}

// Moves the points so that the sum of ((distance - hops) / hops)^2 falls with every step: each point goes to the mean
// of where the others want it. Gansner, Koren and North, "Graph Drawing by Stress Majorization", GD 2004.
void relax(std::vector<Point>& points, const std::vector<double>& hops) {
  constexpr int kMostRounds = 300;
  constexpr double kStill = 1e-3;
  const size_t count = points.size();
  double moved = 1;
  for (int round = 0; round < kMostRounds && moved > kStill; ++round) {
    moved = 0;
    for (size_t i = 0; i < count; ++i) {
      double x = 0, y = 0, weights = 0;
      for (size_t j = 0; j < count; ++j) {
        if (i == j) continue;
        const double wanted = hops[i * count + j], weight = 1 / (wanted * wanted);
        const double dx = points[i].x - points[j].x, dy = points[i].y - points[j].y;
        const double stretch = wanted / std::max(1e-9, std::sqrt(dx * dx + dy * dy));
        x += weight * (points[j].x + dx * stretch);
        y += weight * (points[j].y + dy * stretch);
        weights += weight;
      }
      moved = std::max({moved, std::abs(points[i].x - x / weights), std::abs(points[i].y - y / weights)});
      points[i] = {x / weights, y / weights};
    }
  }
}

double turn_of(Point a, Point b, Point c) { return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x); }

bool cross(Point a, Point b, Point c, Point d) {
  return turn_of(a, b, c) * turn_of(a, b, d) < 0 && turn_of(c, d, a) * turn_of(c, d, b) < 0;
}

size_t crossings(const std::vector<Point>& points, const Pairs& pairs) {
  size_t found = 0;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const auto [a, b] = pairs[i];
    for (size_t j = i + 1; j < pairs.size(); ++j) {
      const auto [c, d] = pairs[j];
      found += cross(points[a], points[b], points[c], points[d]) ? 1 : 0;
    }
  }
  return found;
}

// How often a line from thing to thing passes behind another one.
size_t hidden_lines(const std::vector<Point>& points, const Pairs& pairs, Extent thing) {
  size_t found = 0;
  for (const auto& [a, b] : pairs) {
    for (uint32_t i = 0; i < points.size(); ++i) {
      found += i != a && i != b && passes_through(points[a], points[b], points[i], thing) ? 1 : 0;
    }
  }
  return found;
}

// By which factor the points must be pulled apart so that things of this size with a gap between them do not touch.
double least_scale(const std::vector<Point>& points, Extent thing) {
  double scale = 0;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t j = i + 1; j < points.size(); ++j) {
      const double dx = std::abs(points[i].x - points[j].x), dy = std::abs(points[i].y - points[j].y);
      scale = std::max(scale, std::min(thing.width / std::max(dx, 1e-9), thing.height / std::max(dy, 1e-9)));
    }
  }
  return scale;
}

// Moves things of this size that overlap apart, each half of the way on the shorter side.
void push_apart(std::vector<Point>& points, Extent thing) {
  constexpr int kMostRounds = 200;
  bool touching = true;
  for (int round = 0; round < kMostRounds && touching; ++round) {
    touching = false;
    for (size_t i = 0; i < points.size(); ++i) {
      for (size_t j = i + 1; j < points.size(); ++j) {
        const double dx = points[j].x - points[i].x, dy = points[j].y - points[i].y;
        const double over_x = thing.width - std::abs(dx), over_y = thing.height - std::abs(dy);
        if (over_x <= 0 || over_y <= 0) continue;
        touching = true;
        const double x = over_x <= over_y ? std::copysign(over_x / 2, dx) : 0;
        const double y = over_x <= over_y ? 0 : std::copysign(over_y / 2, dy);
        points[i] = {points[i].x - x, points[i].y - y};
        points[j] = {points[j].x + x, points[j].y + y};
      }
    }
  }
}

// Moves things out of the way of lines that pass behind them, and these lines a little to the other side.
void clear_lines(std::vector<Point>& points, const Pairs& pairs, Extent thing) {
  const auto rounds = std::clamp(60'000 / static_cast<int>(pairs.size() * points.size()), 6, 60);
  constexpr double kStep = 0.35;
  const double reach = std::hypot(thing.width, thing.height) / 2;
  for (int round = 0; round < rounds; ++round) {
    bool is_clear = true;
    for (const auto& [a, b] : pairs) {
      for (uint32_t i = 0; i < points.size(); ++i) {
        if (i == a || i == b || !passes_through(points[a], points[b], points[i], thing)) continue;
        is_clear = false;
        const double dx = points[b].x - points[a].x, dy = points[b].y - points[a].y;
        const double length = std::max(1e-9, std::sqrt(dx * dx + dy * dy));
        const double beside = turn_of(points[a], points[b], points[i]) / length;  // to the left of the line
        const double step = kStep * std::copysign(std::max(2.0, reach - std::abs(beside)), beside);
        const Point move{-dy / length * step, dx / length * step};
        points[i] = {points[i].x + move.x, points[i].y + move.y};
        for (const uint32_t end : {a, b}) points[end] = {points[end].x - move.x / 4, points[end].y - move.y / 4};
      }
    }
    if (is_clear) return;
    push_apart(points, thing);
  }
}

// The points as middles of things that do not touch: pulled apart by a part of what that takes, then one by one.
Ring sized(std::vector<Point> points, const Pairs& pairs, Extent thing, double part) {
  const auto scale_by = [&](double scale) {
    for (Point& point : points) point = {point.x * scale, point.y * scale};
  };
  scale_by(part * least_scale(points, thing));
  push_apart(points, thing);
  clear_lines(points, pairs, thing);
  scale_by(std::max(1.0, least_scale(points, thing)));
  Point low{HUGE_VAL, HUGE_VAL}, high{-HUGE_VAL, -HUGE_VAL};
  for (const Point& point : points) {
    low = {std::min(low.x, point.x), std::min(low.y, point.y)};
    high = {std::max(high.x, point.x), std::max(high.y, point.y)};
  }
  for (Point& point : points) point = {point.x - low.x + thing.width / 2, point.y - low.y + thing.height / 2};
  return {.middles = std::move(points), .size = {high.x - low.x + thing.width, high.y - low.y + thing.height}};
}

// From 0 to 1, the same on every machine.
class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed) {}
  double next() {
    state_ = state_ * 1664525u + 1013904223u;  // Numerical Recipes, 7.1
    return static_cast<double>(state_ >> 8) / (1 << 24);
  }

 private:
  uint32_t state_;
};

}  // namespace

Ring spread(size_t count, const Pairs& pairs, Extent thing, Ring start) {
  // Few lines leave room for none to be hidden, at many starts. Where many cannot be told apart anyway, a small picture
  // with large letters is worth more.
  const double work = static_cast<double>(pairs.size() * count + count * count);
  const auto starts = static_cast<uint32_t>(std::clamp(120'000 / work, 5.0, 240.0));
  const double hidden_cost = std::clamp(60'000 / work, 1.0, 20.0);  // in crossings
  const double area_cost = static_cast<double>(count);              // of the circle's area
  const double circle_area = start.size.width * start.size.height;
  const auto cost_of = [&](const Ring& ring) {
    return static_cast<double>(crossings(ring.middles, pairs)) +
           hidden_cost * static_cast<double>(hidden_lines(ring.middles, pairs, thing)) +
           area_cost * ring.size.width * ring.size.height / circle_area;
  };
  const std::vector<double> hops = hops_between(count, pairs);
  Ring best = std::move(start);
  double least = cost_of(best);
  for (uint32_t seed = 1; seed <= starts; ++seed) {
    Random random(seed);
    std::vector<Point> relaxed;
    for (size_t i = 0; i < count; ++i) relaxed.push_back({random.next(), random.next()});
    relax(relaxed, hops);
    for (const double part : {1.0, 0.6, 0.35}) {
      Ring ring = sized(relaxed, pairs, thing, part);
      const double cost = cost_of(ring);
      if (cost >= least) continue;
      least = cost;
      best = std::move(ring);
    }
  }
  return best;
}

}  // namespace banyan::picture
