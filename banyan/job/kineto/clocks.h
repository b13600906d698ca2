// RankClocks: how far the clocks of ranks are set apart. Ranks have a clock in common when they took part in the same
// collectives: those end on all ranks within microseconds of one another, so the median difference of their ends is how
// far one clock is ahead of the other.
//
// Memory: up to 10,000 differences for a pair of ranks, until settle(). Times are ns.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "banyan/job/kineto/channels.h"

namespace banyan::job::kineto {

class RankClocks {
 public:
  explicit RankClocks(uint32_t ranks);

  // Learns from a channel that is in line.
  void compare(const MessageChannel& channel);
  // From here on offsets are known. Linear time in what was learnt.
  void settle();

  // To be taken off a rank's times, for those of the clock that it has in common with others.
  int64_t offset(uint32_t rank) const { return offsets_[rank]; }
  bool are_common(uint32_t a, uint32_t b) const { return clock_[a] == clock_[b]; }
  // Ranks with the same number have a clock in common.
  uint32_t clock(uint32_t rank) const { return clock_[rank]; }

  // Two that have no clock in common get one, in which b's offset is `offset`. All that have one with b follow it.
  void join(uint32_t a, uint32_t b, int64_t offset);

 private:
  std::vector<int64_t> offsets_;
  std::vector<uint32_t> clock_;  // the first rank that has it
  std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> differences_;
};

}  // namespace banyan::job::kineto
