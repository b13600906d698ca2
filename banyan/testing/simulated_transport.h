// A world of transports within one process, whose timing is decided by a seed. For tests only.
//
// Lane l with rank p is channel l * ranks + p. On a channel at most `capacity` bytes are on their way or unread, from 1
// up. Bytes arrive in order but late, in pieces cut anywhere, and the channels overtake each other. Calls move less
// than they could, or nothing, at random. A lane can be lost at any moment.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "banyan/run/transport/transport.h"

namespace banyan::testing {

class SimulatedWorld {
 public:
  struct Options {
    uint32_t ranks = 2;
    size_t least_capacity = 1, most_capacity = 300;  // that of each channel is drawn between them
    uint64_t seed = 1;
    uint32_t lanes = 1;       // between each two ranks
    bool reads_late = false;  // bodies that last, when they arrive
    bool is_smooth = false;   // calls move all that they can, and what is sent arrives with the next delivery
  };

  explicit SimulatedWorld(const Options& options);
  ~SimulatedWorld();

  run::Transport& transport(uint32_t rank) { return *transports_[rank]; }
  uint32_t channel(uint32_t peer, uint32_t lane) const { return lane * options_.ranks + peer; }
  // Makes some bytes arrive that are on their way; false when there were none.
  bool deliver_some();
  // Puts bytes on the way from one rank to another, as a peer would that follows another plan.
  void inject(uint32_t from, uint32_t to, std::span<const std::byte> bytes);
  // That this rank's transport has taken so far.
  uint64_t bytes_written(uint32_t rank) const { return written_[rank]; }
  // Whether bodies that this rank wrote are still read.
  bool has_unsent(uint32_t rank) const;
  // Whether no byte is on its way or unread.
  bool is_quiet() const;
  uint64_t draw(uint64_t n) { return random_() % n; }  // below n

  // Makes the lane that the `writes`-th write from now on goes along break at that, both ways: what is on its way is
  // lost, and whoever uses it gets Error{peer_lost}.
  void break_a_lane_after(uint64_t writes) { writes_left_ = writes; }
  bool has_broken() const { return has_broken_; }
  // Breaks all lanes between two ranks in the same way.
  void cut(uint32_t a, uint32_t b);
  // The rank has ended, and uses its transport no more. What it had sent still arrives, before whoever reads on, or
  // writes to it, gets Error{peer_lost}.
  void end_rank(uint32_t rank);
  // All lanes are whole again, and empty.
  void mend();

 private:
  struct Way {  // of a lane, from one rank to another
    size_t capacity = 0;
    std::vector<std::byte> bytes;        // unread, then on their way
    std::vector<const std::byte*> lent;  // beside them: where they still are, on their way; none: here
    size_t arrived = 0;                  // of these
    bool is_broken = false;
    bool is_over = false;  // nothing will follow these bytes
    bool is_lost() const { return is_broken || (is_over && bytes.empty()); }
    void break_off();
    void put(std::span<const std::byte> more, bool lasts);
    void arrive(size_t count);
  };
  class RankTransport;

  Way& way(uint32_t from, uint32_t to, uint32_t lane = 0) { return ways_[place_of(from, to, lane)]; }

  size_t place_of(uint32_t from, uint32_t to, uint32_t lane) const {
    return (size_t{lane} * options_.ranks + from) * options_.ranks + to;
  }

  const Options options_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<run::Transport>> transports_;
  std::vector<Way> ways_;
  std::vector<uint64_t> written_;  // bytes, by rank
  uint64_t writes_left_ = 0;       // 0: nothing breaks
  bool has_broken_ = false;
};

}  // namespace banyan::testing
