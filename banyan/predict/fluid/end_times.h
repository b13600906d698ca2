// EndTimes: which of many numbered times is the least, where many of them change at once.
//
// A heap would pay a logarithm for each of the hundreds of ends that one event moves. Here times lie in blocks of 64
// whose minima are recomputed when they are asked for: writing is a store, and finding costs the blocks written since
// and a scan of the minima, both at the speed of memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace banyan::predict {

class EndTimes {
 public:
  static constexpr int64_t kNever = int64_t{1} << 62;

  void resize(size_t count) {
    const size_t blocks = (count + kBlock - 1) / kBlock;
    if (blocks <= minima_.size()) return;
    times_.resize(blocks * kBlock, kNever);
    minima_.resize(blocks, kNever);
    is_stale_.resize(blocks, false);
  }
  size_t size() const { return times_.size(); }

  int64_t operator[](uint32_t i) const { return times_[i]; }
  void set(uint32_t i, int64_t time) {
    times_[i] = time;
    const size_t block = i / kBlock;
    if (is_stale_[block]) return;
    is_stale_[block] = true;
    stale_.push_back(static_cast<uint32_t>(block));
  }

  int64_t least() {
    refresh();
    int64_t least = kNever;
    for (const int64_t minimum : minima_) least = std::min(least, minimum);
    return least;
  }

  // Calls visit(i) for all with times up to `limit`, in ascending order of i. It must not call set.
  template <typename Visit>
  void visit_up_to(int64_t limit, Visit visit) {
    refresh();
    for (size_t block = 0; block < minima_.size(); ++block) {
      if (minima_[block] > limit) continue;
      for (size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
        if (times_[i] <= limit) visit(static_cast<uint32_t>(i));
      }
    }
  }

 private:
  static constexpr size_t kBlock = 64;

  void refresh() {
    for (const uint32_t block : stale_) {
      const int64_t* times = &times_[block * kBlock];
      int64_t least = times[0];
      for (size_t i = 1; i < kBlock; ++i) least = std::min(least, times[i]);
      minima_[block] = least;
      is_stale_[block] = false;
    }
    stale_.clear();
  }

  std::vector<int64_t> times_, minima_;
  std::vector<uint8_t> is_stale_;
  std::vector<uint32_t> stale_;
};

}  // namespace banyan::predict
