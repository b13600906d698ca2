#include "apps/run/live_report.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace banyan::app {
namespace {

using run::CommunicatorView;
using run::JobView;
using run::RankDump;

// Of a communicator, told apart as records tell them apart.
using Name = std::pair<std::string, std::string>;
// A rank of the job, and one of its communicators.
using Place = std::pair<uint32_t, Name>;

Name name_of(const RankDump& record) { return {record.communicator, record.id}; }

std::map<Place, const CommunicatorView*> views_of(const JobView& job) {
  std::map<Place, const CommunicatorView*> views;
  for (uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
    if (!job.ranks[rank].view) continue;
    for (const CommunicatorView& communicator : job.ranks[rank].view->communicators) {
      views.emplace(Place(rank, name_of(communicator.record)), &communicator);
    }
  }
  return views;
}

double seconds_between(const RankDump& first, const RankDump& second) {
  return std::max(1e-9, static_cast<double>(second.time - first.time) / 1e9);
}

std::vector<uint64_t> open_messages(const RankDump& record) {
  std::vector<uint64_t> numbers;
  for (const run::MessageRecord& message : record.messages.messages) {
    if (message.is_open()) numbers.push_back(message.number);
  }
  return numbers;
}

bool has_moved(const RankDump& first, const RankDump& second) {
  const auto state_of = [](const RankDump& record) {
    const run::OperationRecord* const newest = record.newest();
    return newest == nullptr ? std::tuple(uint64_t{0}, run::OperationState::done, uint32_t{0})
                             : std::tuple(newest->sequence, newest->state, newest->step);
  };
  const bool had_messages = first.messages.begun != second.messages.begun ||
                            first.messages.pairs != second.messages.pairs ||
                            open_messages(first) != open_messages(second);
  return had_messages || first.begun != second.begun || state_of(first) != state_of(second);
}

void add_lanes(const CommunicatorView& first, const CommunicatorView& second, std::vector<LiveReport::Lane>& lanes) {
  const double seconds = seconds_between(first.record, second.record);
  std::map<std::pair<uint32_t, uint32_t>, const run::LaneBytes*> before;
  for (const run::LaneBytes& lane : first.lanes) before.emplace(std::pair(lane.peer, lane.lane), &lane);
  for (const run::LaneBytes& lane : second.lanes) {
    const auto found = before.find({lane.peer, lane.lane});
    const run::LaneBytes old = found == before.end() ? run::LaneBytes{} : *found->second;
    if (lane.sent < old.sent || lane.received < old.received) continue;  // another connection by now
    if (lane.sent == old.sent && lane.received == old.received) continue;
    lanes.push_back({.communicator = second.record.communicator,
                     .rank = second.record.rank,
                     .peer = lane.peer,
                     .lane = lane.lane,
                     .sent_per_second = static_cast<double>(lane.sent - old.sent) / seconds,
                     .received_per_second = static_cast<double>(lane.received - old.received) / seconds});
  }
}

}  // namespace

LiveReport report_of(const JobView& first, const JobView& second) {
  LiveReport report;
  report.size = static_cast<uint32_t>(second.ranks.size());
  report.asked = second.asked;
  for (uint32_t rank = 0; rank < second.ranks.size(); ++rank) {
    const JobView::Rank& each = second.ranks[rank];
    report.ranks.push_back(
        {.rank = rank, .process = each.process, .place = each.place, .health = each.health, .why = each.why});
    if (!each.view) {
      report.absent.push_back(report.ranks.back());
      continue;
    }
    for (const run::DoubtView& doubt : each.view->doubts) report.doubts.push_back({.by = rank, .of = doubt});
  }
  const std::map<Place, const CommunicatorView*> before = views_of(first), now = views_of(second);
  std::map<Name, LiveReport::Communicator> communicators;
  for (const auto& [place, view] : now) {
    const RankDump& record = view->record;
    LiveReport::Communicator& communicator = communicators[place.second];
    communicator.name = record.communicator;
    communicator.id = record.id;
    communicator.size = record.size;
    const auto found = before.find(place);
    if (found == before.end()) {
      communicator.moves = true;
      continue;
    }
    const RankDump& old = found->second->record;
    communicator.moves = communicator.moves || has_moved(old, record);
    const double calls = record.begun < old.begun ? 0 : static_cast<double>(record.begun - old.begun);
    communicator.calls_per_second = std::max(communicator.calls_per_second, calls / seconds_between(old, record));
    add_lanes(*found->second, *view, report.lanes);
  }
  std::vector<RankDump> still, all;
  for (const auto& [place, view] : now) {
    all.push_back(view->record);
    if (!communicators.at(place.second).moves) still.push_back(view->record);
  }
  report.diagnosis = run::diagnose(all);
  report.diagnosis.findings = run::diagnose(still).findings;
  for (auto& [name, communicator] : communicators) report.communicators.push_back(std::move(communicator));
  std::stable_sort(report.lanes.begin(), report.lanes.end(), [](const auto& a, const auto& b) {
    return a.sent_per_second + a.received_per_second > b.sent_per_second + b.received_per_second;
  });
  return report;
}

}  // namespace banyan::app
