#include "banyan/run/record/crossing.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace banyan::run {
namespace {

using Process = std::pair<std::string, int64_t>;  // host, number

Process process_of(const RankDump& dump) { return {dump.host, dump.pid}; }

// Where each process waits, and for whom each communicator waits. A process may wait in several, by its threads.
class Search {
 public:
  explicit Search(std::span<const CommunicatorCase> cases) {
    for (const CommunicatorCase& here : cases) {
      if (here.stall().kind != FindingKind::late) continue;
      for (const uint32_t rank : here.stall().waiting) {
        if (const RankDump* dump = here.dump_of(rank)) waits_in_[process_of(*dump)].push_back({&here, rank});
      }
    }
  }

  std::vector<CrossingStep> run() {
    for (const auto& [process, steps] : waits_in_) {
      if (visit(process)) return circle_;
    }
    return {};
  }

 private:
  // Depth first; `path_` is how we came here. True when `circle_` has been found.
  bool visit(const Process& process) {
    const auto on_path =
        std::ranges::find_if(path_, [&](const CrossingStep& step) { return process_of(*dump(step)) == process; });
    if (on_path != path_.end()) {
      circle_.assign(on_path, path_.end());
      return true;
    }
    if (!visited_.insert(process).second) return false;
    const auto steps = waits_in_.find(process);
    if (steps == waits_in_.end()) return false;
    for (const CrossingStep& step : steps->second) {
      path_.push_back(step);
      for (const uint32_t late : step.in->stall().ranks) {
        const RankDump* its_dump = step.in->dump_of(late);
        if (its_dump != nullptr && visit(process_of(*its_dump))) return true;
      }
      path_.pop_back();
    }
    return false;
  }

  static const RankDump* dump(const CrossingStep& step) { return step.in->dump_of(step.rank); }

  std::map<Process, std::vector<CrossingStep>> waits_in_;
  std::set<Process> visited_;
  std::vector<CrossingStep> path_, circle_;
};

// "broadcast #2 of B"
std::string call_words(const CrossingStep& step) {
  const RankState& state = step.in->states()[step.rank];
  const std::string call =
      state.operation != nullptr ? name(*state.operation) : "call #" + std::to_string(state.sequence);
  return call + " of " + step.in->title();
}

}  // namespace

std::vector<CrossingStep> find_crossing(std::span<const CommunicatorCase> cases) { return Search(cases).run(); }

Finding crossing_finding(const std::vector<CrossingStep>& circle) {
  Finding finding{.kind = FindingKind::crossing,
                  .communicator = circle.front().in->title(),
                  .ranks = {circle.front().rank},
                  .sequence = circle.front().in->stall().sequence};
  for (const CrossingStep& step : circle) {
    finding.sentence += &step == circle.data() ? "" : " while ";
    finding.sentence += "rank " + std::to_string(step.rank) + " is in " + call_words(step);
    finding.because.push_back(step.in->title() + ": " + step.in->stall().sentence);
  }
  finding.sentence += circle.size() == 2
                          ? ", and each waits for the other: they called the two communicators in opposite orders"
                          : ", and each waits for the next: they called the communicators in different orders";
  return finding;
}

CrossingStep elsewhere(std::span<const CommunicatorCase> cases, const CommunicatorCase& here, uint32_t rank) {
  const RankDump* own = here.dump_of(rank);
  if (own == nullptr) return {};
  for (const CommunicatorCase& other : cases) {
    if (&other == &here) continue;
    for (const RankState& state : other.states()) {
      const RankDump* dump = other.dump_of(state.rank);
      if (dump != nullptr && state.is_inside() && process_of(*dump) == process_of(*own)) {
        return {.in = &other, .rank = state.rank};
      }
    }
  }
  return {};
}

}  // namespace banyan::run
