// TwoTierPlanner: all-to-allv between boxes of GPUs, for traffic that is skewed and new at every call (mixture of
// experts). Inside a box GPUs are joined by wide links; between boxes every GPU has a NIC of its own.
//
// The plan, after FLASH / FAST (arXiv 2505.09764), whose ideas these are; the algorithms are our own:
//   1. Balance. Before box X sends to box Y, its GPUs pass bytes to each other until each holds the same amount for Y
//      (balance.h). GPU i then talks to GPU i of Y only, and the matrix of GPUs becomes one of boxes.
//   2. Stages. The matrix of boxes is cut into one-to-one stages without incast, whose lengths sum to the largest row
//      or column sum: the least there can be (box_stages.h).
//   3. Redistribution. Bytes that GPU i of Y received for others go to them inside Y while the next stage flies.
// Bytes between GPUs of one box go straight, beside all this.
//
// Order of the bytes. For a pair of boxes X -> Y, GPU i of X sends the *queue* of i:
//   first its own bytes that it gave to nobody, for target i of Y, then i+1, ... modulo G;
//   then what others gave it, in the order of moves(X, Y).
// Count the bytes that X sends to Y from 0, over all stages in their order: byte c is the next of the queue of GPU
// c modulo G. So in every stage the GPUs send equal amounts within one byte, what a GPU holds itself leaves before what
// it has to be given, and neighbours send to different targets. parcels.h walks these queues.
//
// Order and pieces. In-box work overlaps with stages when those before and after are of similar length, and nothing
// overlaps with the balance before the first and the redistribution after the last. So long stages are cut into
// pieces, and stages are ordered by length: growing, then shrinking.
//
// Every rank computes the same plan from the same matrix: integers, no clock, ties by number, and nothing is
// remembered from earlier calls. Bytes are below 2^44 for each pair of GPUs.
//
// One thread. After the first call nothing is allocated, but for stages of more than 64 boxes, whose room grows to the
// most that were needed. Memory: 20 bytes times the square of the ranks, and 10 bytes times boxes times stages.
// Complexity: one reading of the matrix, and O(stages * boxes^2) (box_stages.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/plan/two_tier/balance.h"
#include "banyan/plan/two_tier/box_stages.h"

namespace banyan::plan {

// Rank r is GPU r % gpus of box r / gpus.
struct TwoTierShape {
  uint32_t boxes = 2;
  uint32_t gpus = 8;  // of each box

  uint32_t ranks() const { return boxes * gpus; }
};

// The bytes that one box sends to another in a stage; none: it sends nothing.
struct BoxSend {
  uint64_t bytes = 0;
  uint32_t from = 0, to = 0;
};

class TwoTierPlan {
 public:
  TwoTierShape shape() const { return shape_; }

  size_t stage_count() const { return lengths_.size(); }
  // The most that a box may send in the stage.
  uint64_t stage_length(size_t stage) const { return lengths_[stage]; }
  std::span<const BoxSend> stage(size_t stage) const { return {&sends_[starts_[stage]], &sends_[starts_[stage + 1]]}; }
  // The bytes that are left after all stages and go at once, by pairs of boxes; empty unless a rest was asked for. In
  // all orders they count as one more stage, the last.
  std::span<const BoxSend> rest() const { return rest_; }
  uint64_t rest_length() const { return rest_length_; }  // the largest row or column sum of the rest

  // The balance of box `from` for box `to`.
  std::span<const TwoTierMove> moves(uint32_t from, uint32_t to) const {
    const size_t pair = size_t{from} * shape_.boxes + to;
    return {&moves_[move_starts_[pair]], &moves_[move_starts_[pair + 1]]};
  }
  uint64_t box_bytes(uint32_t from, uint32_t to) const { return box_bytes_[size_t{from} * shape_.boxes + to]; }
  // The largest number of bytes that a box sends to others, or receives, in all stages and the rest.
  uint64_t largest_sum() const { return largest_sum_; }

 private:
  friend class TwoTierPlanner;
  explicit TwoTierPlan(TwoTierShape shape) : shape_(shape) {}

  TwoTierShape shape_;
  std::vector<TwoTierMove> moves_;
  std::vector<size_t> move_starts_;  // by pair of boxes
  std::vector<uint64_t> box_bytes_;
  std::vector<uint64_t> lengths_;
  std::vector<size_t> starts_;  // by stage, into sends_
  std::vector<BoxSend> sends_, rest_;
  uint64_t rest_length_ = 0, largest_sum_ = 0;
};

class TwoTierPlanner {
 public:
  static constexpr uint32_t kMostBoxes = BoxStages::kMostBoxes;
  static constexpr uint32_t kMostGpus = 64;  // of a box
  static constexpr uint32_t kMostRanks = 4096;
  static constexpr uint64_t kMostBytes = uint64_t{1} << 44;  // of a pair of ranks

  struct Options {
    // A stage of more than 1/pieces of all stages is cut, but never into pieces that give a NIC fewer than
    // `smallest_piece` bytes.
    uint32_t pieces = 24;
    uint64_t smallest_piece = 256 * 1024;
    // As soon as no box has more than this left to send or to receive, all of it goes at once: a few bytes with incast
    // are cheaper than many stages. Zero: stages to the end. 40 boxes with 1 GB of random traffic for each rank have
    // 345 stages; with 2 MB left they have 139, and in the model of testing/two_tier_time.h they take as long.
    uint64_t rest = 0;
  };

  // Throws Error{invalid_input}: fewer than two boxes, no GPUs, no pieces; Error{unsupported}: more than the limits
  // above.
  explicit TwoTierPlanner(TwoTierShape shape) : TwoTierPlanner(shape, Options()) {}
  TwoTierPlanner(TwoTierShape shape, const Options& options);

  // `bytes` is ranks x ranks, row-major, row = sender. The plan is good until the next call.
  // Throws Error{invalid_input} when the matrix has another size, Error{unsupported} when an entry is above kMostBytes.
  const TwoTierPlan& plan(std::span<const uint64_t> bytes);

 private:
  void check(std::span<const uint64_t> bytes) const;
  void balance(std::span<const uint64_t> bytes);
  void order_pieces();
  void send_pieces();
  void send_rest();

  // A part of a stage of stages_.
  struct Piece {
    uint64_t bytes = 0;
    uint32_t stage = 0;
  };

  Options options_;
  BoxBalance balance_;
  BoxStages stages_;
  std::vector<Piece> pieces_, ordered_;
  std::vector<uint64_t> left_;  // by pair of boxes
  TwoTierPlan plan_;
};

}  // namespace banyan::plan
