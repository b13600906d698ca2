#include "banyan/run/record/straggler.h"

#include <algorithm>
#include <map>
#include <vector>

#include "banyan/base/text.h"
#include "banyan/base/words.h"
#include "banyan/run/record/recorder.h"

namespace banyan::run {
namespace {

struct Arrival {
  uint32_t rank = 0;
  int64_t time = 0;
};

struct Tally {
  uint64_t times_last = 0;
  double lateness = 0;  // ns, summed over the operations that it entered last
};

bool is_usable(const OperationRecord& record) {
  return synchronizes(record.kind) && Recorder::is_exact(record) && record.state == OperationState::done &&
         record.end > record.begin && record.begin > 0;
}

// By operation, who came when.
std::map<uint64_t, std::vector<Arrival>> arrivals(std::span<const RankDump* const> dumps) {
  const bool share_a_clock =
      std::ranges::all_of(dumps, [&](const RankDump* dump) { return dump->host == dumps.front()->host; });
  std::map<uint64_t, std::vector<Arrival>> by_operation;
  for (const RankDump* dump : dumps) {
    for (const OperationRecord& record : dump->operations) {
      if (!is_usable(record)) continue;
      const int64_t time = share_a_clock ? record.begin : record.begin - record.end;
      by_operation[record.sequence].push_back({.rank = dump->rank, .time = time});
    }
  }
  std::erase_if(by_operation, [&](const auto& entry) { return entry.second.size() != dumps.size(); });
  return by_operation;
}

// From one call to the next, on average, by the clock of one rank; 0 when that cannot be told.
double period(const RankDump& dump) {
  const OperationRecord* first = nullptr;
  const OperationRecord* last = nullptr;
  for (const OperationRecord& record : dump.operations) {
    if (!is_usable(record)) continue;
    if (first == nullptr) first = &record;
    last = &record;
  }
  if (first == last || last->begin <= first->begin) return 0;
  return static_cast<double>(last->begin - first->begin) / static_cast<double>(last->sequence - first->sequence);
}

// More than chance makes of one among `ranks`: half of what is left above its fair share.
double suspicious_share(size_t ranks) {
  const double fair = 1.0 / static_cast<double>(ranks);
  return fair + (1 - fair) / 2;
}

}  // namespace

std::optional<Straggler> find_straggler(std::span<const RankDump* const> dumps) {
  if (dumps.size() < 2) return std::nullopt;
  auto operations = arrivals(dumps);
  if (operations.size() < kLeastOperations) return std::nullopt;
  std::map<uint32_t, Tally> tallies;
  for (auto& [sequence, ranks] : operations) {
    std::partial_sort(ranks.begin(), ranks.begin() + 2, ranks.end(),
                      [](const Arrival& a, const Arrival& b) { return a.time > b.time; });
    Tally& tally = tallies[ranks[0].rank];
    ++tally.times_last;
    tally.lateness += static_cast<double>(ranks[0].time) - static_cast<double>(ranks[1].time);
  }
  const auto worst = std::ranges::max_element(
      tallies, [](const auto& a, const auto& b) { return a.second.times_last < b.second.times_last; });
  const double total = static_cast<double>(operations.size());
  Straggler found{
      .rank = worst->first,
      .operations = operations.size(),
      .share = static_cast<double>(worst->second.times_last) / total,
      .lateness = static_cast<int64_t>(worst->second.lateness / static_cast<double>(worst->second.times_last))};
  const double each = period(*dumps.front());
  if (each > 0) found.cost = std::min(1.0, worst->second.lateness / total / each);
  if (found.share < suspicious_share(dumps.size()) || found.cost < kLeastCost) return std::nullopt;
  found.sentence = "rank " + std::to_string(found.rank) + " entered last in " + rough_percent(found.share) + " of " +
                   with_thousands(found.operations) + " operations, on average " + format_duration(found.lateness) +
                   " after the others, which cost " + rough_percent(found.cost) + " of the time";
  return found;
}

}  // namespace banyan::run
