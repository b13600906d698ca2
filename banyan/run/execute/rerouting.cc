#include "banyan/run/execute/rerouting.h"

#include <algorithm>
#include <sstream>
#include <utility>

namespace banyan::run {
namespace {

// Reports of one moment are drawn up a little apart.
constexpr uint64_t kMargin = 200;
// No report of a sane peer is longer.
constexpr size_t kMostNumbers = 1 << 20;

}  // namespace

std::set<uint32_t> lost_cables(const std::vector<LaneReport>& lanes) {
  // Of each cable, how long ago anything that crosses it was heard of.
  std::map<uint32_t, uint64_t> heard;
  for (const LaneReport& lane : lanes) {
    if (lane.is_lost) continue;
    for (const uint32_t cable : lane.cables) {
      const auto [place, is_new] = heard.emplace(cable, lane.silent_ms);
      if (!is_new) place->second = std::min(place->second, lane.silent_ms);
    }
  }
  std::set<uint32_t> lost;
  for (const LaneReport& lane : lanes) {
    if (!lane.is_lost) continue;
    for (const uint32_t cable : lane.cables) {
      const auto found = heard.find(cable);
      if (found == heard.end() || found->second + kMargin >= lane.silent_ms) lost.insert(cable);
    }
  }
  return lost;
}

// Numbers with spaces between: round rank over, how many also_over and these, how many lanes and of each is_lost,
// silent_ms, how many cables and these.
std::string RerouteReport::encode() const {
  std::ostringstream text;
  text << Rerouting::kPrefix << round << ' ' << rank << ' ' << over << ' ' << also_over.size();
  for (const uint64_t call : also_over) text << ' ' << call;
  text << ' ' << lanes.size();
  for (const LaneReport& lane : lanes) {
    text << ' ' << (lane.is_lost ? 1 : 0) << ' ' << lane.silent_ms << ' ' << lane.cables.size();
    for (const uint32_t cable : lane.cables) text << ' ' << cable;
  }
  return text.str();
}

void Rerouting::heard(const std::string& text) {
  std::istringstream stream(text.substr(std::string(kPrefix).size()));
  RerouteReport report;
  size_t count = 0;
  stream >> report.round >> report.rank >> report.over >> count;
  for (size_t i = 0; stream && i < std::min(count, kMostNumbers); ++i) {
    uint64_t call = 0;
    stream >> call;
    report.also_over.push_back(call);
  }
  stream >> count;
  for (size_t i = 0; stream && i < std::min(count, kMostNumbers); ++i) {
    LaneReport lane;
    size_t cables = 0;
    stream >> lane.is_lost >> lane.silent_ms >> cables;
    for (size_t k = 0; stream && k < std::min(cables, kMostNumbers); ++k) {
      uint32_t cable = 0;
      stream >> cable;
      lane.cables.push_back(cable);
    }
    report.lanes.push_back(std::move(lane));
  }
  if (!stream || report.rank >= ranks_) return;
  const std::lock_guard lock(mutex_);
  reports_[report.round].insert_or_assign(report.rank, std::move(report));
}

std::optional<uint32_t> Rerouting::called_to(uint32_t round) const {
  const std::lock_guard lock(mutex_);
  if (reports_.empty() || reports_.rbegin()->first <= round) return std::nullopt;
  return reports_.rbegin()->first;
}

std::optional<RerouteDecision> Rerouting::decide(uint32_t round) const {
  const std::lock_guard lock(mutex_);
  const auto found = reports_.find(round);
  if (found == reports_.end() || found->second.size() < ranks_) return std::nullopt;
  RerouteDecision decision;
  decision.round = round;
  std::vector<LaneReport> lanes;
  for (const auto& [rank, report] : found->second) {
    decision.over = std::max(decision.over, report.over);
    decision.also_over.insert(report.also_over.begin(), report.also_over.end());
    lanes.insert(lanes.end(), report.lanes.begin(), report.lanes.end());
  }
  decision.lost_cables = lost_cables(lanes);
  return decision;
}

std::optional<uint32_t> Rerouting::missing(uint32_t round) const {
  const std::lock_guard lock(mutex_);
  const auto found = reports_.find(round);
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    if (found == reports_.end() || !found->second.contains(rank)) return rank;
  }
  return std::nullopt;
}

uint64_t Rerouting::count() const {
  const std::lock_guard lock(mutex_);
  uint64_t sum = 0;
  for (const auto& [round, reports] : reports_) sum += reports.size();
  return sum;
}

}  // namespace banyan::run
