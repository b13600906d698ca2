// LabOracle: when the ranks of a network could reach each other, from its cables and from what was done to them. Plain
// breadth-first search; shares no code with the runtime or the lab.
#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

namespace banyan::c {

using LabTime = std::chrono::milliseconds;  // since the events of a run began

struct LabSpan {
  LabTime begin, end;
  LabTime length() const { return end - begin; }
  bool operator==(const LabSpan&) const = default;
};
LabTime longest(const std::vector<LabSpan>& spans);

// Nodes are numbered; the first of them are the ranks.
struct LabGraph {
  size_t nodes = 0, ranks = 0;
  std::vector<std::pair<size_t, size_t>> cables;
};

// A cable counts as lost that loses one way only, too. To cut and to mend takes a while.
struct LabOutage {
  static constexpr LabTime kNever = LabTime::max();
  size_t cable = 0;
  LabTime cut_begun{0}, cut{0};
  LabTime mend_begun = kNever, mended = kNever;
};

class LabOracle {
 public:
  // What comes after `until` does not count.
  LabOracle(LabGraph graph, std::vector<LabOutage> outages, LabTime until = LabOutage::kNever)
      : graph_(std::move(graph)), outages_(std::move(outages)), until_(until) {}

  // When not every rank could reach every other: perhaps, and for sure. They differ by the time that cutting and
  // mending took.
  std::vector<LabSpan> possible_splits() const { return splits(possible()); }
  std::vector<LabSpan> sure_splits() const { return splits(sure()); }
  // The parts of those that are sure in which no call of all ranks can have come nearer to its end: what is mended may
  // let some of them go a step further, so much later at most.
  std::vector<LabSpan> standstills(LabTime recovery) const;
  // When calls may have stood still, if each loss of a cable costs them so much time, and the end of each split, too.
  std::vector<LabSpan> stalls(LabTime recovery) const;
  // Whether two ranks could perhaps not reach each other at some time of the span.
  bool were_parted(size_t a, size_t b, LabSpan span) const;
  bool was_perhaps_cut(size_t cable, LabSpan span) const;

 private:
  struct Lost {
    size_t cable;
    LabSpan span;
  };
  std::vector<Lost> possible() const;
  std::vector<Lost> sure() const;
  std::vector<LabSpan> joined(std::vector<LabSpan> spans) const;
  std::vector<LabSpan> splits(const std::vector<Lost>& lost) const;
  std::vector<size_t> components(const std::set<size_t>& cut) const;

  const LabGraph graph_;
  const std::vector<LabOutage> outages_;
  const LabTime until_;
};

}  // namespace banyan::c
