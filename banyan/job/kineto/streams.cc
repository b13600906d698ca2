#include "banyan/job/kineto/streams.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace banyan::job::kineto {
namespace {

// What a clock's grain and the profiler's own cost may shift an end, ns.
constexpr int64_t kJitter = 5'000;
// So many records before a wait are looked at.
constexpr int kMostRecords = 16;

}  // namespace

DraftStreams::DraftStreams(RankDraft& draft)
    : draft_(draft),
      tracks_(draft.tracks.size()),
      launched_(draft.tracks.size()),
      device_waits_(draft.threads.size()),
      by_thread_(draft.threads.size()) {
  for (uint32_t i = 0; i < draft.works.size(); ++i) {
    const DraftWork& work = draft.works[i];
    tracks_[work.track].push_back(i);
    if (work.launch.thread != kNoIndex && !draft.tracks[work.track].host) by_thread_[work.launch.thread].push_back(i);
  }
  for (uint32_t track = 0; track < tracks_.size(); ++track) {
    std::ranges::stable_sort(tracks_[track], {},
                             [&](uint32_t i) { return std::pair(draft.works[i].start, draft.works[i].order); });
    int64_t latest = INT64_MIN;
    for (const uint32_t i : tracks_[track]) {
      latest = std::max(latest, draft.works[i].launched);
      launched_[track].push_back(latest);
      if (!draft.tracks[track].host) launches_.emplace_back(latest, track);
    }
  }
  std::ranges::sort(launches_);
  for (auto& works : by_thread_) {
    std::ranges::stable_sort(works, {}, [&](uint32_t a) { return draft.works[a].launched; });
  }
  for (const DraftWait& wait : draft.waits) find_source(wait);
}

// The last work of a stream that was launched before a moment, and the first one from then on.
uint32_t DraftStreams::last_before(uint32_t track, int64_t time) const {
  const auto at = std::ranges::lower_bound(launched_[track], time);
  return at == launched_[track].begin() ? kNoIndex
                                        : tracks_[track][static_cast<size_t>(at - launched_[track].begin()) - 1];
}

uint32_t DraftStreams::first_after(uint32_t track, int64_t time) const {
  const auto at = std::ranges::lower_bound(launched_[track], time);
  return at == launched_[track].end() ? kNoIndex : tracks_[track][static_cast<size_t>(at - launched_[track].begin())];
}

std::span<const uint32_t> DraftStreams::launched_by(uint32_t thread) const {
  return thread == kNoIndex ? std::span<const uint32_t>() : by_thread_[thread];
}

size_t DraftStreams::launches_until(std::span<const uint32_t> works, int64_t time) const {
  const auto at = std::ranges::upper_bound(works, time, {}, [&](uint32_t i) { return draft_.works[i].launched; });
  return static_cast<size_t>(at - works.begin());
}

// Of what a thread launched: the first after a moment, and the last until then.
uint32_t DraftStreams::first_launch_after(uint32_t thread, int64_t time) const {
  const std::span<const uint32_t> works = launched_by(thread);
  const size_t at = launches_until(works, time);
  return at == works.size() ? kNoIndex : works[at];
}

uint32_t DraftStreams::last_launch_before(uint32_t thread, int64_t time) const {
  const std::span<const uint32_t> works = launched_by(thread);
  const size_t at = launches_until(works, time);
  return at == 0 ? kNoIndex : works[at - 1];
}

// What the trace says, else what is likely. A wait that the trace's own times contradict is dropped: its work began
// after the wait was over.
std::vector<uint32_t> DraftStreams::waited_for_by(uint32_t thread, const DraftPoint& point) {
  std::vector<uint32_t> works;
  if (point.kind == DraftPoint::Kind::work) {
    works.push_back(point.work);
  } else if (point.kind == DraftPoint::Kind::device) {
    works = last_of_devices(thread, point);
  } else if (point.track != kNoIndex) {
    works.push_back(last_before(point.track, point.before));
  } else if (const uint32_t likely = likely_waited_for(point); likely != kNoIndex) {
    works.push_back(likely);
    ++draft_.counts.syncs_inferred;
  }
  std::erase_if(works, [&](uint32_t i) {
    if (i == kNoIndex) return true;
    if (draft_.works[i].start < point.end) return false;
    ++draft_.counts.waits_against_time;
    return true;
  });
  return works;
}

// The last work of each stream that got a launch since the thread's last wait for devices: what was launched before
// that has been waited for already. A stream whose last work had not run yet is left for the next wait.
std::vector<uint32_t> DraftStreams::last_of_devices(uint32_t thread, const DraftPoint& point) {
  DeviceWaits& waits = device_waits_[thread];
  std::vector<uint32_t> tracks = std::exchange(waits.left, {});
  for (; waits.seen < launches_.size() && launches_[waits.seen].first < point.before; ++waits.seen) {
    tracks.push_back(launches_[waits.seen].second);
  }
  std::ranges::sort(tracks);
  tracks.erase(std::unique(tracks.begin(), tracks.end()), tracks.end());
  std::vector<uint32_t> works;
  for (const uint32_t track : tracks) {
    const uint32_t work = last_before(track, point.before);
    if (work != kNoIndex && draft_.works[work].start >= point.end) waits.left.push_back(track);
    works.push_back(work);
  }
  return works;
}

const std::vector<uint32_t>& DraftStreams::sources_of(uint32_t work) const {
  static const std::vector<uint32_t> kNone;
  const auto at = sources_.find(work);
  return at == sources_.end() ? kNone : at->second;
}

// Of the streams' last works before the call, the one that ended last among those that ended with it.
uint32_t DraftStreams::likely_waited_for(const DraftPoint& point) const {
  uint32_t likely = kNoIndex;
  for (uint32_t track = 0; track < tracks_.size(); ++track) {
    if (draft_.tracks[track].host) continue;
    const uint32_t i = last_before(track, point.before);
    if (i == kNoIndex || draft_.works[i].end > point.end + kJitter) continue;
    if (likely == kNoIndex || draft_.works[i].end > draft_.works[likely].end) likely = i;
  }
  return likely;
}

// The pair of works of one wait of a stream: the next work of the waiting stream, and the last of the other stream
// before the event was recorded.
void DraftStreams::find_source(const DraftWait& wait) {
  // The waiting stream, if it is not said, is most likely that of the thread's next launch.
  const uint32_t next =
      wait.track != kNoIndex ? first_after(wait.track, wait.time) : first_launch_after(wait.thread, wait.time);
  if (next == kNoIndex) return;  // nothing waits
  uint32_t source = kNoIndex;
  if (wait.source != kNoIndex) {
    source = last_before(wait.source, wait.recorded.value_or(wait.time));
    if (source == kNoIndex) return;  // nothing is waited for
    if (draft_.works[source].end > draft_.works[next].start + kJitter) {
      ++draft_.counts.waits_against_time;
      return;
    }
  } else {
    source = likely_source(wait, next);
    if (source == kNoIndex) {
      ++draft_.counts.waits_unknown;
      return;
    }
    ++draft_.counts.waits_inferred;
  }
  if (draft_.works[source].track == draft_.works[next].track) return;
  ++draft_.counts.waits;
  sources_[next].push_back(source);
}

// The latest event that was recorded before, on another stream than the waiting one and that had passed when that went
// on. An event is recorded on the stream of its thread's last launch.
uint32_t DraftStreams::likely_source(const DraftWait& wait, uint32_t next) const {
  auto at = std::ranges::upper_bound(draft_.records, wait.time, {}, &DraftRecord::time);
  for (int steps = 0; at != draft_.records.begin() && steps < kMostRecords; ++steps) {
    --at;
    const uint32_t launch = last_launch_before(at->thread, at->time);
    if (launch == kNoIndex) continue;
    const uint32_t source = last_before(draft_.works[launch].track, at->time);
    if (source == kNoIndex || draft_.works[source].track == draft_.works[next].track) continue;
    if (draft_.works[source].end <= draft_.works[next].start + kJitter) return source;
  }
  return kNoIndex;
}

}  // namespace banyan::job::kineto
