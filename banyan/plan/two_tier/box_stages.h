// BoxStages: cuts the bytes between boxes into stages that are free of incast: in one stage every box sends to one box
// at most and receives from one at most.
//
// The problem is the preemptive open shop, solved by Birkhoff's theorem. Let M be the matrix of bytes, row = sender,
// and S the largest of its row and column sums. Padding makes every row and column sum S; then a perfect matching of
// nonzero entries exists, and subtracting the same amount from all its entries leaves a matrix of the same kind with
// a smaller S. So the lengths of all stages sum to S, and no set of stages can be shorter.
//
// Padding. Rows and columns that lack bytes are paired by two pointers in the order of their numbers: at most
// 2 boxes - 1 entries. A reader of the stages sends the bytes of M first and idles when they have run out. If a box
// sends nothing to itself, entries on the diagonal are padding alone.
//
// Few stages. Each stage takes the matching whose smallest entry is largest, and the whole of that entry. A generic
// matrix has about boxes^2 stages when any matching is taken, and 7 to 8 times boxes by this rule (40 boxes of 8 random
// ranks each: 317 instead of 1,501; 99 % of the bytes are in the first 75).
//
// Method. Let the threshold be the smallest entry that a stage may have. Rows are bitsets of the columns whose entries
// reach it. A matching is kept from stage to stage; only entries that fell below the threshold are matched again, each
// by one breadth-first search over bitsets. If there is no augmenting path, the threshold becomes the width of the
// widest one, found as by Dijkstra. That is the largest threshold with which the row can be matched: at any threshold
// up to that of the matching, it is a maximum one iff no augmenting path exists. So every stage is a bottleneck
// matching.
//
// Complexity per stage: boxes augmentations of boxes^2 / 64 words each at worst; a change of the threshold takes
// boxes^2. Integers only; ties go to lower numbers; the same matrix gives the same stages whatever came before.
// Memory: O(boxes^2) and the stages; all of it stays between calls.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace banyan::plan {

class BoxStages {
 public:
  static constexpr uint32_t kMostBoxes = 256;

  explicit BoxStages(uint32_t boxes);  // 1 .. kMostBoxes

  // `traffic` is boxes x boxes, row-major, its sums below 2^63. Ends as soon as no row or column has more than `rest`
  // bytes left.
  void decompose(std::span<const uint64_t> traffic, uint64_t rest = 0);

  size_t count() const { return lengths_.size(); }
  // Bytes, padding included. No stage is longer than the one before.
  uint64_t length(size_t stage) const { return lengths_[stage]; }
  // The receiver of each sending box, a permutation. An entry may be padding.
  std::span<const uint16_t> receivers(size_t stage) const { return {&receivers_[stage * boxes_], boxes_}; }
  uint64_t largest_sum() const { return largest_sum_; }  // S of the last call

 private:
  template <uint32_t kWords>
  class Matching;
  template <uint32_t kWords>
  void cut(uint64_t rest);
  void pad(std::span<const uint64_t> traffic);

  uint32_t boxes_;
  uint64_t largest_sum_ = 0;
  std::vector<uint64_t> left_;            // of the padded matrix
  std::vector<uint64_t> rows_, columns_;  // what their sums lack
  std::vector<uint64_t> lengths_;
  std::vector<uint16_t> receivers_;
};

}  // namespace banyan::plan
