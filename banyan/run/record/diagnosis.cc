#include "banyan/run/record/diagnosis.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "banyan/run/record/communicator_case.h"
#include "banyan/run/record/crossing.h"

namespace banyan::run {
namespace {

// Those that can be of one run. Clocks of hosts may differ a little.
std::vector<RankDump> of_newest_run(std::span<const RankDump> dumps) {
  constexpr int64_t kSlack = 5'000'000'000;
  const auto wall = [](const RankDump& dump) { return dump.time + dump.wall_offset; };
  const auto newest =
      std::ranges::max_element(dumps, [&](const RankDump& a, const RankDump& b) { return wall(a) < wall(b); });
  std::vector<RankDump> kept(dumps.begin(), dumps.end());
  if (newest == dumps.end() || newest->started == 0) return kept;
  std::erase_if(kept, [&](const RankDump& dump) { return wall(dump) < newest->started - kSlack; });
  return kept;
}

std::vector<CommunicatorCase> open_cases(std::span<const RankDump> dumps) {
  std::map<std::pair<std::string, std::string>, std::vector<const RankDump*>> groups;
  std::map<std::string, size_t> namesakes;
  for (const RankDump& dump : dumps) {
    std::vector<const RankDump*>& group = groups[{dump.communicator, dump.id}];
    if (group.empty()) ++namesakes[dump.communicator];
    group.push_back(&dump);
  }
  std::vector<CommunicatorCase> cases;
  for (const auto& [key, group] : groups) {
    const auto& [name, id] = key;
    cases.emplace_back(namesakes[name] > 1 ? name + " (" + id + ")" : name, group);
  }
  return cases;
}

// A rank that is late here because it waits elsewhere is not the first cause.
bool is_consequence(std::span<const CommunicatorCase> cases, const CommunicatorCase& here, Finding& finding) {
  if (finding.kind != FindingKind::late) return false;
  bool explains = false;
  for (const uint32_t rank : finding.ranks) {
    const CrossingStep where = elsewhere(cases, here, rank);
    if (where.in == nullptr) continue;
    const RankState& state = where.in->states()[where.rank];
    const std::string call = state.operation != nullptr ? name(*state.operation) : "a call";
    finding.because.insert(finding.because.begin(), "at that time rank " + std::to_string(rank) + " was in " + call +
                                                        " of " + where.in->title());
    explains = true;
  }
  return explains;
}

}  // namespace

Diagnosis diagnose(std::span<const RankDump> dumps) {
  const std::vector<RankDump> kept = of_newest_run(dumps);
  const std::vector<CommunicatorCase> cases = open_cases(kept);
  Diagnosis diagnosis;
  diagnosis.older = dumps.size() - kept.size();
  const std::vector<CrossingStep> circle = find_crossing(cases);
  std::set<const CommunicatorCase*> crossed;
  for (const CrossingStep& step : circle) crossed.insert(step.in);
  if (!circle.empty()) diagnosis.findings.push_back(crossing_finding(circle));

  std::vector<Finding> causes, consequences, remarks;
  for (const CommunicatorCase& here : cases) {
    diagnosis.communicators.push_back(here.report());
    for (Finding& finding : here.findings()) {
      if (finding.kind == FindingKind::late && crossed.contains(&here)) continue;
      const bool is_remark = finding.kind == FindingKind::straggler || finding.kind == FindingKind::reported;
      std::vector<Finding>& list = is_remark ? remarks : is_consequence(cases, here, finding) ? consequences : causes;
      list.push_back(std::move(finding));
    }
  }
  for (std::vector<Finding>* list : {&causes, &consequences, &remarks}) {
    std::move(list->begin(), list->end(), std::back_inserter(diagnosis.findings));
  }
  return diagnosis;
}

}  // namespace banyan::run
