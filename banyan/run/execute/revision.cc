#include "banyan/run/execute/revision.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>
#include <utility>

namespace banyan::run {
namespace {

// No report of a sane peer is longer.
constexpr size_t kMostNumbers = 1 << 20;
constexpr const char* kReport = "report";

std::istream& operator>>(std::istream& stream, RevisionReport& report) {
  size_t count = 0;
  stream >> report.generation >> report.rank >> report.over >> count;
  for (size_t i = 0; stream && i < std::min(count, kMostNumbers); ++i) {
    uint64_t call = 0;
    stream >> call;
    report.also_over.push_back(call);
  }
  stream >> count;
  for (size_t i = 0; stream && i < std::min(count, kMostNumbers); ++i) {
    LaneReport lane;
    size_t cables = 0;
    lane.rank = report.rank;
    stream >> lane.peer >> lane.is_lost >> lane.silent_ms >> cables;
    for (size_t k = 0; stream && k < std::min(cables, kMostNumbers); ++k) {
      uint32_t cable = 0;
      stream >> cable;
      lane.cables.push_back(cable);
    }
    report.lanes.push_back(std::move(lane));
  }
  return stream >> report.adopted;
}

}  // namespace

// Words with spaces between: generation rank over, how many also_over and these, how many lanes and of each peer,
// is_lost, silent_ms, how many cables and these; the adopted update.
std::string RevisionReport::encode() const {
  std::ostringstream text;
  text << Revisions::kPrefix << kReport << ' ' << generation << ' ' << rank << ' ' << over << ' ' << also_over.size();
  for (const uint64_t call : also_over) text << ' ' << call;
  text << ' ' << lanes.size();
  for (const LaneReport& lane : lanes) {
    text << ' ' << lane.peer << ' ' << (lane.is_lost ? 1 : 0) << ' ' << lane.silent_ms << ' ' << lane.cables.size();
    for (const uint32_t cable : lane.cables) text << ' ' << cable;
  }
  text << ' ' << adopted;
  return text.str();
}

void Revisions::receive(const std::string& text) {
  std::istringstream stream(text.substr(std::string_view(kPrefix).size()));
  std::string kind;
  RevisionReport report;
  if (!(stream >> kind) || kind != kReport || !(stream >> report) || report.rank >= ranks_) return;
  const std::lock_guard lock(mutex_);
  // A rank reports once in a generation: a text that comes twice changes nothing.
  ++count_;
  reports_[report.generation].insert_or_assign(report.rank, std::move(report));
}

std::optional<uint32_t> Revisions::called_to(uint32_t generation) const {
  const std::lock_guard lock(mutex_);
  if (reports_.empty() || reports_.rbegin()->first <= generation) return std::nullopt;
  return reports_.rbegin()->first;
}

std::optional<RevisionDecision> Revisions::decide(uint32_t generation) const {
  const std::lock_guard lock(mutex_);
  const auto found = reports_.find(generation);
  // All ranks decide from the same reports, so all decide the same.
  if (found == reports_.end() || found->second.size() < ranks_) return std::nullopt;
  // The calls that are over at each rank, and the latest state that any rank has adopted.
  RevisionDecision decision;
  std::vector<LaneReport> lanes;
  for (const auto& [rank, report] : found->second) {
    decision.over.push_back({.up_to = report.over, .also = {report.also_over.begin(), report.also_over.end()}});
    lanes.insert(lanes.end(), report.lanes.begin(), report.lanes.end());
    // An update is a whole state, so the latest one is all that counts.
    if (report.adopted.generation >= decision.update.generation) decision.update = report.adopted;
  }
  // Lost cables are added to what was adopted; wishes are not.
  FabricUpdate& update = decision.update;
  const std::set<uint32_t> lost_now = lost_cables(lanes);
  std::set_difference(lost_now.begin(), lost_now.end(), update.lost_cables.begin(), update.lost_cables.end(),
                      std::inserter(decision.losses, decision.losses.end()));
  update.lost_cables.insert(lost_now.begin(), lost_now.end());
  // Who asked for that plan did not know of the loss.
  if (!decision.losses.empty()) update.plan.clear();
  update.generation = generation;
  return decision;
}

bool RevisionDecision::is_over_everywhere(uint64_t call) const {
  return std::all_of(over.begin(), over.end(), [call](const Over& each) { return each.contains(call); });
}

std::optional<uint32_t> RevisionDecision::first_over(uint64_t call) const {
  const auto found = std::find_if(over.begin(), over.end(), [call](const Over& each) { return each.contains(call); });
  return found == over.end() ? std::nullopt : std::optional(static_cast<uint32_t>(found - over.begin()));
}

std::optional<uint32_t> Revisions::missing(uint32_t generation) const {
  const std::lock_guard lock(mutex_);
  const auto found = reports_.find(generation);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (found == reports_.end() || !found->second.contains(rank)) return rank;
  }
  return std::nullopt;
}

uint64_t Revisions::count() const {
  const std::lock_guard lock(mutex_);
  return count_;
}

void Revisions::forget_before(uint32_t generation) {
  const std::lock_guard lock(mutex_);
  reports_.erase(reports_.begin(), reports_.lower_bound(generation));
}

}  // namespace banyan::run
