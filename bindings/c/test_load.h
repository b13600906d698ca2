// Load: an endless stream of random collectives whose results are checked. For tests that run long.
#pragma once

#include <banyan/banyan.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "bindings/c/test_calls.h"

namespace banyan::c {

// The same seed gives the same calls on all ranks of a communicator, which make them together. Kinds, types (unsigned
// ones, whose sums and products are exact modulo their width), operations, roots, sizes, alignment, in place or not,
// blocking or by a request: all are drawn. Data are noise that depends on rank and position. Small results are checked
// whole, large ones at both ends and some places between. One thread.
class Load {
 public:
  struct Options {
    uint64_t seed = 0;
    size_t largest = 0;      // bytes that a call sends or receives at most, on a rank
    bool is_shared = false;  // buffers of banyan_mem_alloc
  };
  // Ends the process when there is no memory for the buffers, of which it holds 2 * largest.
  Load(banyan_comm_t comm, const Options& options);

  // Has every rank read and write all pages of its own buffers, and read those of the others that it can read in place:
  // what is resident grows no more afterwards. What was wrong, or nothing.
  std::string touch();
  // Makes one call of at most `most` bytes. What was wrong with it; nothing when it was right.
  std::string call(size_t most);
  // The same until `count` have been made or one was wrong.
  std::string calls(uint64_t count, size_t most);

 private:
  // What all ranks have sent, from so many bytes on, and how it is reduced.
  struct Sent {
    banyan_op_t op;
    size_t offset;
  };
  template <typename T>
  std::string call_as(banyan_type_t type, size_t most);
  template <typename T>
  T expected(const testing::CallShape::Piece& piece, size_t at, const Sent& sent) const;
  size_t below(size_t end) { return end == 0 ? 0 : random_() % end; }

  banyan_comm_t comm_;
  Options options_;
  int rank_ = 0, size_ = 0;
  std::mt19937_64 random_;
  uint64_t made_ = 0;
  const CallMemory send_, recv_;
};

}  // namespace banyan::c
