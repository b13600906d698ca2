// LevelQueue: links in the order of their levels, for a sweep that only goes up.
//
// A monotone bucket queue: 256 buckets per octave of level, so that a push and a pop cost a few nanoseconds and no
// comparison; what falls into the bucket that the sweep stands in is ordered by a heap. A link that is pushed again is
// held once, at the new place. Levels may have grown while they waited: the queue looks again, and comes back to a link
// at its level of now. One that is pushed with a level below where the sweep stands comes out next. A link whose level
// is infinite is out.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

namespace banyan::predict {

class LevelQueue {
 public:
  explicit LevelQueue(size_t links) : bucket_of_(links, kNone) {}
  void resize(size_t links) { bucket_of_.resize(links, kNone); }

  void push(uint32_t link, double level) {
    if (level == std::numeric_limits<double>::infinity()) {
      bucket_of_[link] = kNone;
      return;
    }
    const uint32_t bucket = std::max(bucket_at(level), sweep_);
    bucket_of_[link] = bucket;
    if (bucket == sweep_ && sweeping_) {
      heap_.push_back({level, link});
      std::push_heap(heap_.begin(), heap_.end());
      return;
    }
    entries_.push_back({link, heads_[bucket]});
    heads_[bucket] = static_cast<uint32_t>(entries_.size());
    words_[bucket / 64] |= uint64_t{1} << (bucket % 64);
  }

  // The next link and the level it was pushed with at the least; false when there is none. `level_now(link)` is what
  // its level is now, which decides the order; a link whose level now lies in a later bucket is put there.
  template <typename LevelNow>
  bool pop(uint32_t* link, LevelNow level_now) {
    for (;;) {
      while (!heap_.empty()) {
        std::pop_heap(heap_.begin(), heap_.end());
        const auto [level, candidate] = heap_.back();
        heap_.pop_back();
        if (bucket_of_[candidate] != sweep_) continue;  // was pushed again, to a later place, or taken out
        const double now = level_now(candidate);
        if (now > level) {
          push(candidate, now);
          continue;
        }
        bucket_of_[candidate] = kNone;
        *link = candidate;
        return true;
      }
      if (!open_next(level_now)) return false;
    }
  }

  // Ready for another sweep, from the lowest level.
  void clear() {
    for (const Entry& entry : entries_) bucket_of_[entry.link] = kNone;
    for (const auto& [level, link] : heap_) bucket_of_[link] = kNone;
    heap_.clear();
    if (!entries_.empty()) {
      // Buckets that were opened are empty already.
      for (uint32_t word = sweep_ / 64; word < kBuckets / 64; ++word) {
        for (uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) heads_[word * 64 + std::countr_zero(bits)] = 0;
        words_[word] = 0;
      }
    }
    entries_.clear();
    sweep_ = 0;
    sweeping_ = false;
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr int kMantissaBits = 8, kOctaves = 128;  // levels from 2^-63 to 2^64 bytes per second
  static constexpr uint32_t kBuckets = kOctaves << kMantissaBits;

  struct Entry {
    uint32_t link;
    uint32_t next;  // place + 1 in entries_; 0 ends a bucket
  };

  // In a heap whose front is the lowest.
  struct Ready {
    double level;
    uint32_t link;
    friend bool operator<(const Ready& a, const Ready& b) {
      return a.level > b.level || (a.level == b.level && a.link > b.link);
    }
  };

  static uint32_t bucket_at(double level) {
    constexpr int64_t kLowest = static_cast<int64_t>(1023 - kOctaves / 2) << kMantissaBits;
    const int64_t place = static_cast<int64_t>(std::bit_cast<uint64_t>(level) >> (52 - kMantissaBits)) - kLowest;
    return static_cast<uint32_t>(std::clamp<int64_t>(place, 0, kBuckets - 1));
  }

  // Puts the links of the next bucket that is not empty into the heap.
  template <typename LevelNow>
  bool open_next(LevelNow level_now) {
    uint32_t word = sweep_ / 64;
    while (word < kBuckets / 64 && words_[word] == 0) ++word;
    if (word == kBuckets / 64) return false;
    sweep_ = word * 64 + static_cast<uint32_t>(std::countr_zero(words_[word]));
    words_[word] &= words_[word] - 1;
    sweeping_ = true;
    for (uint32_t at = std::exchange(heads_[sweep_], 0); at != 0;) {
      const Entry entry = entries_[at - 1];
      at = entry.next;
      if (bucket_of_[entry.link] != sweep_) continue;
      const double level = level_now(entry.link);
      if (level < std::numeric_limits<double>::infinity() && bucket_at(level) <= sweep_) {
        heap_.push_back({level, entry.link});
      } else {
        push(entry.link, level);
      }
    }
    std::make_heap(heap_.begin(), heap_.end());
    return true;
  }

  std::vector<uint32_t> bucket_of_;  // by link; kNone: not queued
  std::vector<uint32_t> heads_ = std::vector<uint32_t>(kBuckets, 0);
  std::vector<uint64_t> words_ = std::vector<uint64_t>(kBuckets / 64, 0);  // which buckets are not empty
  std::vector<Entry> entries_;
  std::vector<Ready> heap_;
  uint32_t sweep_ = 0;
  bool sweeping_ = false;
};

}  // namespace banyan::predict
