// DraftStreams: the works of a draft's streams in the order in which they ran, and what waits for which of them.
//
// CUDA waits for what was launched to a stream before some moment. The work waited for stands in the trace, or is
// guessed if it does not (traces without cuda_sync events): a call that blocks waited for the work that ended last
// before it returned; a stream waits for the event recorded last that had passed when it went on. A wait that the
// trace's own times contradict is dropped: the work waited for started after the call returned, or ended after the
// waiting stream went on. All of this is counted in the draft.
//
// Complexity O(works log works) to begin with, O(log works) a question, and O(streams log works) for a call that does
// not say for which stream it waits. A thread's waits for whole devices together: O(works log works).
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {

class DraftStreams {
 public:
  // The draft is borrowed; its works must not change any more.
  explicit DraftStreams(RankDraft& draft);

  // The works of a track as they ran.
  const std::vector<uint32_t>& works(uint32_t track) const { return tracks_[track]; }
  // The works that a point of a host's thread waits for, without those that the thread has waited for already. Ask once
  // for each, in the order of the thread.
  std::vector<uint32_t> waited_for_by(uint32_t thread, const DraftPoint& point);
  // The works of other streams that a work waits for.
  const std::vector<uint32_t>& sources_of(uint32_t work) const;

 private:
  uint32_t last_before(uint32_t track, int64_t time) const;
  uint32_t first_after(uint32_t track, int64_t time) const;
  // The works that a thread launched, none where it is not known; how many of them were launched until a moment.
  std::span<const uint32_t> launched_by(uint32_t thread) const;
  size_t launches_until(std::span<const uint32_t> works, int64_t time) const;
  uint32_t first_launch_after(uint32_t thread, int64_t time) const;
  uint32_t last_launch_before(uint32_t thread, int64_t time) const;
  std::vector<uint32_t> last_of_devices(uint32_t thread, const DraftPoint& point);
  uint32_t likely_waited_for(const DraftPoint& point) const;
  uint32_t likely_source(const DraftWait& wait, uint32_t next) const;
  void find_source(const DraftWait& wait);

  // State of a thread's waits for devices: the launches that it has seen, and the streams that its last wait could not
  // wait for, which are left for the next one.
  struct DeviceWaits {
    size_t seen = 0;  // of launches_
    std::vector<uint32_t> left;
  };

  using Launch = std::pair<int64_t, uint32_t>;  // time as launched_ has it, track

  RankDraft& draft_;
  std::vector<std::vector<uint32_t>> tracks_;
  std::vector<std::vector<int64_t>> launched_;                   // running maximum of launches, like tracks_
  std::vector<Launch> launches_;                                 // of all GPUs, ascending
  std::vector<DeviceWaits> device_waits_;                        // by thread
  std::vector<std::vector<uint32_t>> by_thread_;                 // works as the thread launched them
  std::unordered_map<uint32_t, std::vector<uint32_t>> sources_;  // by waiting work
};

}  // namespace banyan::job::kineto
