// The ranks of a host, each with its hold of the memory in which they meet.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/host/segment.h"
#include "banyan/testing/orders/explorer.h"

namespace banyan::testing::orders {

class TestHost {
 public:
  // Ranks that have to come yet.
  TestHost(Trial& trial, uint32_t ranks) {
    const run::Segment::Options options{.ranks = ranks, .block_bytes = 4096};
    segments_.push_back(run::Segment::make(options));
    while (segments_.size() < ranks) segments_.push_back(run::Segment::attach(0, segments_.front().fd(), options));
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      const auto name = [&](const void* memory, const char* what) {
        trial.name(memory, what + std::string(" of rank ") + std::to_string(rank));
      };
      const run::Segment& segment = segments_.front();
      for (uint32_t operation = 0; operation < run::Segment::kPosts; ++operation) {
        name(&segment.post(rank, operation), "the sequence");
        name(&segment.post(rank, operation).signature, "the post");
        name(&segment.call_record(rank, operation), "the record");
      }
      name(&segment.staged(rank), "staged");
      name(&segment.reduced(rank), "reduced");
      name(&segment.collected(rank), "collected");
      name(&segment.farewell(rank), "farewell");
      for (uint32_t block = 0; block < run::Segment::kBlocks; ++block) {
        name(segment.staging(rank, block), "a staged block");
        name(segment.results(rank, block), "a block of results");
      }
    }
  }
  // That have come. `seldom_sleep`: who falls asleep makes the barriers.
  TestHost(Trial& trial, uint32_t ranks, bool seldom_sleep) : TestHost(trial, ranks) {
    for (uint32_t rank = 0; rank < ranks; ++rank) segments_[rank].say_here(rank, false, seldom_sleep);
    for (run::Segment& segment : segments_) segment.settle();
  }

  run::Segment& segment(uint32_t rank) { return segments_[rank]; }

 private:
  std::vector<run::Segment> segments_;
};

}  // namespace banyan::testing::orders
