// RecordReader: what the flight record of a rank (run/record/recorder.h) says of it, for operators. The rank's program
// lets the daemon read it, where its communicator does without the daemon.
//
// The memory may be anybody's, and change while it is read: whatever is in it, the outcome is some view. One look costs
// as much as some dozens of records.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

class RecordReader {
 public:
  // `begun`: since when its communicator is there. Times are in nanoseconds of CLOCK_MONOTONIC.
  explicit RecordReader(int64_t begun) : begun_(begun) {}

  // Fills in, beside who it is: the calls that were begun and are over, the one under way, its times, for whom it
  // waits, and an error. For how long nothing of a call has moved is known from looks: the first one at a call says 0.
  void look(std::span<const std::byte> record, int64_t now, RankView& view);

 private:
  const int64_t begun_;
  // The oldest call under way at the last look: its number, its step, and the time of the look that saw this step
  // first.
  uint64_t sequence_ = 0;
  uint32_t step_ = 0;
  int64_t moved_ = 0;
};

}  // namespace banyan::service
