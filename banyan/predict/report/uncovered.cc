#include "banyan/predict/report/uncovered.h"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

namespace banyan::predict::report {
namespace {

bool is_work(const PredictedSpan& span) {
  return span.kind == PredictedSpan::Kind::compute || span.kind == PredictedSpan::Kind::memory;
}

struct Edge {
  uint32_t rank = 0;
  Picoseconds at{0};
  bool ends = false;
  uint32_t span = 0;
};

}  // namespace

std::vector<Uncovered> uncovered_operations(const Prediction& prediction, size_t most) {
  std::vector<Edge> edges;
  for (uint32_t i = 0; i < prediction.spans.size(); ++i) {
    const PredictedSpan& span = prediction.spans[i];
    if (span.end <= span.begin) continue;
    edges.push_back({.rank = span.rank, .at = span.begin, .ends = false, .span = i});
    edges.push_back({.rank = span.rank, .at = span.end, .ends = true, .span = i});
  }
  std::ranges::sort(edges, {}, [](const Edge& a) { return std::tuple(a.rank, a.at, a.span); });
  std::map<uint32_t, double> by_name;  // picoseconds
  std::map<uint32_t, size_t> active;   // names of operations under way, and how many of each
  size_t working = 0, under_way = 0, ranks = 0;
  for (size_t i = 0; i < edges.size(); ++i) {
    const Edge& edge = edges[i];
    const bool first = i == 0 || edges[i - 1].rank != edge.rank;
    if (first) ++ranks;
    if (!first && working == 0 && under_way > 0) {
      const double each = static_cast<double>((edge.at - edges[i - 1].at).count()) / static_cast<double>(under_way);
      for (const auto& [name, count] : active) by_name[name] += each * static_cast<double>(count);
    }
    const PredictedSpan& span = prediction.spans[edge.span];
    if (is_work(span)) {
      working += edge.ends ? size_t(-1) : 1;
    } else {
      under_way += edge.ends ? size_t(-1) : 1;
      size_t& count = active[span.name];
      count += edge.ends ? size_t(-1) : 1;
      if (count == 0) active.erase(span.name);
    }
  }
  std::vector<Uncovered> result;
  const double whole = static_cast<double>(std::max<int64_t>(1, prediction.time.count())) * static_cast<double>(ranks);
  for (const auto& [name, time] : by_name) result.push_back({prediction.names[name], time / whole});
  std::ranges::stable_sort(result, std::greater(), &Uncovered::share);
  if (result.size() <= most) return result;
  Uncovered rest{.name = "other"};
  for (size_t i = most - 1; i < result.size(); ++i) rest.share += result[i].share;
  result.resize(most - 1);
  result.push_back(rest);
  return result;
}

}  // namespace banyan::predict::report
