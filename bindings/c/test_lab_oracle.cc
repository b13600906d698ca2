#include "bindings/c/test_lab_oracle.h"

#include <algorithm>
#include <functional>
#include <queue>

namespace banyan::c {
namespace {

bool overlap(const LabSpan& a, const LabSpan& b) { return a.begin < b.end && b.begin < a.end; }

LabTime later(LabTime time, LabTime by) { return time == LabOutage::kNever ? time : time + by; }

}  // namespace

LabTime longest(const std::vector<LabSpan>& spans) {
  LabTime length{0};
  for (const LabSpan& span : spans) length = std::max(length, span.length());
  return length;
}

// Spans that touch become one.
std::vector<LabSpan> LabOracle::joined(std::vector<LabSpan> spans) const {
  std::sort(spans.begin(), spans.end(), [](const LabSpan& a, const LabSpan& b) { return a.begin < b.begin; });
  std::vector<LabSpan> all;
  for (LabSpan span : spans) {
    span.end = std::min(span.end, until_);
    if (span.end <= span.begin) continue;
    if (all.empty() || all.back().end < span.begin) {
      all.push_back(span);
    } else {
      all.back().end = std::max(all.back().end, span.end);
    }
  }
  return all;
}

std::vector<LabOracle::Lost> LabOracle::possible() const {
  std::vector<Lost> lost;
  for (const LabOutage& outage : outages_) {
    lost.push_back({.cable = outage.cable, .span = {outage.cut_begun, outage.mended}});
  }
  return lost;
}

std::vector<LabOracle::Lost> LabOracle::sure() const {
  std::vector<Lost> lost;
  for (const LabOutage& outage : outages_) {
    lost.push_back({.cable = outage.cable, .span = {outage.cut, outage.mend_begun}});
  }
  return lost;
}

// Of each node, the number of the part that it is in.
std::vector<size_t> LabOracle::components(const std::set<size_t>& cut) const {
  const size_t none = graph_.nodes;
  std::vector<size_t> part(graph_.nodes, none);
  for (size_t first = 0; first < graph_.nodes; ++first) {
    if (part[first] != none) continue;
    std::queue<size_t> queue;
    const auto reach = [&](size_t node) {
      if (part[node] != none) return;
      part[node] = first;
      queue.push(node);
    };
    for (reach(first); !queue.empty(); queue.pop()) {
      for (size_t cable = 0; cable < graph_.cables.size(); ++cable) {
        const auto& [a, b] = graph_.cables[cable];
        if (cut.contains(cable)) continue;
        if (a == queue.front()) reach(b);
        if (b == queue.front()) reach(a);
      }
    }
  }
  return part;
}

// Between two moments at which a cable is lost or mended, nothing changes.
std::vector<LabSpan> LabOracle::splits(const std::vector<Lost>& lost) const {
  std::set<LabTime> moments;
  for (const Lost& each : lost) moments.insert({each.span.begin, each.span.end});
  std::vector<LabSpan> spans;
  for (auto moment = moments.begin(); moment != moments.end() && std::next(moment) != moments.end(); ++moment) {
    const LabSpan span{*moment, *std::next(moment)};
    std::set<size_t> cut;
    for (const Lost& each : lost) {
      if (overlap(each.span, span)) cut.insert(each.cable);
    }
    const std::vector<size_t> part = components(cut);
    const auto ranks_end = part.begin() + static_cast<std::ptrdiff_t>(graph_.ranks);
    if (std::adjacent_find(part.begin(), ranks_end, std::not_equal_to<>()) != ranks_end) spans.push_back(span);
  }
  return joined(spans);
}

std::vector<LabSpan> LabOracle::standstills(LabTime recovery) const {
  std::vector<LabOutage> mends = outages_;
  std::erase_if(mends, [](const LabOutage& outage) { return outage.mended == LabOutage::kNever; });
  std::sort(mends.begin(), mends.end(), [](const auto& a, const auto& b) { return a.mended < b.mended; });
  std::vector<LabSpan> spans;
  for (const LabSpan& split : sure_splits()) {
    LabTime begin = split.begin;
    for (const LabOutage& outage : mends) {
      if (outage.mended <= split.begin || outage.mended >= split.end) continue;
      if (begin < outage.mend_begun) spans.push_back({begin, outage.mend_begun});
      begin = later(outage.mended, recovery);
    }
    if (begin < split.end) spans.push_back({begin, split.end});
  }
  return spans;
}

std::vector<LabSpan> LabOracle::stalls(LabTime recovery) const {
  std::vector<LabSpan> spans;
  for (const LabOutage& outage : outages_) spans.push_back({outage.cut_begun, later(outage.cut, recovery)});
  for (const LabSpan& split : possible_splits()) spans.push_back({split.begin, later(split.end, recovery)});
  return joined(spans);
}

bool LabOracle::were_parted(size_t a, size_t b, LabSpan span) const {
  const std::vector<Lost> lost = possible();
  std::set<LabTime> moments{span.begin};
  for (const Lost& each : lost) moments.insert({each.span.begin, each.span.end});
  return std::any_of(moments.begin(), moments.end(), [&](LabTime moment) {
    if (moment < span.begin || moment >= span.end) return false;
    std::set<size_t> cut;
    for (const Lost& each : lost) {
      if (each.span.begin <= moment && moment < each.span.end) cut.insert(each.cable);
    }
    const std::vector<size_t> part = components(cut);
    return part[a] != part[b];
  });
}

bool LabOracle::was_perhaps_cut(size_t cable, LabSpan span) const {
  const std::vector<Lost> lost = possible();
  return std::any_of(lost.begin(), lost.end(),
                     [&](const Lost& each) { return each.cable == cable && overlap(each.span, span); });
}

}  // namespace banyan::c
