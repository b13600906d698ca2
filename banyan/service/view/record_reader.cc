#include "banyan/service/view/record_reader.h"

#include <algorithm>
#include <string>
#include <vector>

#include "banyan/run/record/recorder.h"

namespace banyan::service {
namespace {

// More than calls may be under way (run/communicator/call_log.h).
constexpr size_t kRecords = 64;

bool is_over(const run::OperationRecord& record) {
  return record.state == run::OperationState::done || record.state == run::OperationState::failed;
}

// "allreduce of 1024 float32 sum", "barrier".
std::string in_words(const run::OperationRecord& record) {
  const std::string details = run::details(record);
  return std::string(to_string(record.kind)) + (details.empty() ? "" : " of " + details);
}

// The times are what somebody has written.
double seconds_between(int64_t from, int64_t to) {
  return from <= 0 || from >= to ? 0 : static_cast<double>(to - from) / 1e9;
}

// What an earlier look has filled in.
void forget(RankView& view) {
  view.calls_begun = view.calls_over = 0;
  view.call.clear();
  view.call_seconds = view.stalled_seconds = 0;
  view.waiting_for.reset();
  view.error.clear();
}

}  // namespace

void RecordReader::look(std::span<const std::byte> record, int64_t now, RankView& view) {
  std::vector<run::OperationRecord> calls = run::newest_operations(record, kRecords);
  std::erase_if(calls, [](const run::OperationRecord& each) { return !is_collective(each.kind); });
  forget(view);
  view.idle_seconds = seconds_between(begun_, now);
  if (calls.empty()) return;
  const auto under_way = static_cast<uint64_t>(
      std::count_if(calls.begin(), calls.end(), [](const run::OperationRecord& each) { return !is_over(each); }));
  const run::OperationRecord& newest = calls.back();
  view.calls_begun = newest.sequence;
  view.calls_over = newest.sequence - std::min(newest.sequence, under_way);
  if (newest.state == run::OperationState::failed) view.error = describe(newest) + " has failed";
  if (under_way == 0) {
    // The end of a short call that has not waited is not known.
    view.idle_seconds = seconds_between(newest.end != 0 ? newest.end : newest.begin, now);
    return;
  }
  const run::OperationRecord& oldest = *std::find_if_not(calls.begin(), calls.end(), is_over);
  if (oldest.sequence != sequence_ || oldest.step != step_) {
    sequence_ = oldest.sequence;
    step_ = oldest.step;
    moved_ = now;
  }
  view.idle_seconds = 0;
  view.call = in_words(oldest);
  view.call_seconds = seconds_between(oldest.begin, now);
  view.stalled_seconds = seconds_between(moved_, now);
  if (oldest.waits_for != run::kNoRank) view.waiting_for = oldest.waits_for;
}

}  // namespace banyan::service
