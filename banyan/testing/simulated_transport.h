// A world of transports within one process, whose timing is decided by a seed. For tests only.
//
// Between two ranks at most `capacity` bytes are on their way or unread, from 1 up. Bytes arrive in order but late, in
// pieces cut anywhere, and the pairs overtake each other. Calls move less than they could, or nothing, at random.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "banyan/run/transport/transport.h"

namespace banyan {

class SimulatedWorld {
 public:
  struct Options {
    uint32_t ranks = 2;
    size_t least_capacity = 1, most_capacity = 300;  // that of each pair is drawn between them
    uint64_t seed = 1;
  };

  explicit SimulatedWorld(const Options& options);
  ~SimulatedWorld();

  Transport& transport(uint32_t rank) { return *transports_[rank]; }
  // Makes some bytes arrive that are on their way; false when there were none.
  bool deliver_some();
  // Puts bytes on the way from one rank to another, as a peer would that follows another plan.
  void inject(uint32_t from, uint32_t to, std::span<const std::byte> bytes);
  // Whether no byte is on its way or unread.
  bool is_quiet() const;
  uint64_t draw(uint64_t n) { return random_() % n; }  // below n

 private:
  struct Pair {
    size_t capacity = 0;
    std::vector<std::byte> bytes;  // unread, then on their way
    size_t arrived = 0;            // of these
  };
  class RankTransport;

  Pair& pair(uint32_t from, uint32_t to) { return pairs_[from * transports_.size() + to]; }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Transport>> transports_;
  std::vector<Pair> pairs_;
};

}  // namespace banyan
