#include "banyan/plan/two_tier/box_stages.h"

#include <algorithm>
#include <array>
#include <bit>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

// Up to here, room for the most stages that there can be is taken at once.
constexpr uint32_t kFewBoxes = 64;

}  // namespace

// A matching of rows and columns whose entries reach the threshold. kWords * 64 columns at most.
template <uint32_t kWords>
class BoxStages::Matching {
 public:
  Matching(std::span<uint64_t> left, uint32_t boxes) : left_(left), boxes_(boxes) {
    receiver_.fill(kNone);
    sender_.fill(kNone);
    for (uint32_t box = 0; box < boxes; ++box) set(free_columns_, box);
    set_threshold(*std::ranges::max_element(left));
  }

  // Makes it perfect, by the largest threshold that allows it. The matrix must have equal positive sums.
  void complete() {
    for (uint32_t row = 0; row < boxes_; ++row)
      while (receiver_[row] == kNone && !augment(row)) set_threshold(widest_path(row));
  }

  uint64_t smallest_entry() const {
    uint64_t least = UINT64_MAX;
    for (uint32_t row = 0; row < boxes_; ++row) least = std::min(least, left_[row * boxes_ + receiver_[row]]);
    return least;
  }

  // Takes `bytes` from every matched entry; those that fall below the threshold are matched no more.
  void subtract(uint64_t bytes) {
    for (uint32_t row = 0; row < boxes_; ++row) {
      const uint16_t column = receiver_[row];
      uint64_t& entry = left_[row * boxes_ + column];
      entry -= bytes;
      if (entry >= threshold_) continue;
      clear(rows_[row], column);
      set(free_columns_, column);
      receiver_[row] = sender_[column] = kNone;
    }
  }

  std::span<const uint16_t> receivers() const { return {receiver_.data(), boxes_}; }

 private:
  using Bits = std::array<uint64_t, kWords>;
  static constexpr uint32_t kMost = kWords * 64;
  static constexpr uint16_t kNone = UINT16_MAX;

  static void set(Bits& bits, uint32_t i) { bits[i / 64] |= uint64_t{1} << (i % 64); }
  static void clear(Bits& bits, uint32_t i) { bits[i / 64] &= ~(uint64_t{1} << (i % 64)); }

  void set_threshold(uint64_t threshold) {
    threshold_ = threshold;
    for (uint32_t row = 0; row < boxes_; ++row) {
      rows_[row] = {};
      for (uint32_t column = 0; column < boxes_; ++column)
        rows_[row][column / 64] |= uint64_t{left_[row * boxes_ + column] >= threshold} << (column % 64);
    }
  }

  // Breadth first from an unmatched row to an unmatched column.
  bool augment(uint32_t start) {
    Bits unseen;
    unseen.fill(~uint64_t{0});
    uint32_t ends = 0;
    queue_[ends++] = static_cast<uint16_t>(start);
    for (uint32_t begin = 0; begin < ends; ++begin) {
      const uint16_t row = queue_[begin];
      for (uint32_t word = 0; word < kWords; ++word) {
        uint64_t found = rows_[row][word] & unseen[word];
        if (const uint64_t open = found & free_columns_[word]; open != 0) {
          const auto column = static_cast<uint16_t>(word * 64 + std::countr_zero(open));
          from_[column] = row;
          clear(free_columns_, column);
          match_back(column, start);
          return true;
        }
        unseen[word] &= ~found;
        for (; found != 0; found &= found - 1) {
          const auto column = static_cast<uint16_t>(word * 64 + std::countr_zero(found));
          from_[column] = row;
          queue_[ends++] = sender_[column];
        }
      }
    }
    return false;
  }

  void match_back(uint16_t column, uint32_t start) {
    for (;;) {
      const uint16_t row = from_[column];
      sender_[column] = row;
      std::swap(receiver_[row], column);
      if (row == start) return;
    }
  }

  // The largest, over augmenting paths from `start`, of the smallest entry that a path adds to the matching.
  uint64_t widest_path(uint32_t start) const {
    std::array<uint64_t, kMost> width{};
    std::array<bool, kMost> settled{};
    uint32_t row = start;
    for (uint64_t reached = UINT64_MAX;;) {
      uint32_t next = kMost;
      uint64_t most = 0;
      for (uint32_t column = 0; column < boxes_; ++column) {
        width[column] = std::max(width[column], std::min(reached, left_[row * boxes_ + column]));
        if (settled[column] || width[column] <= most) continue;
        most = width[column];
        next = column;
      }
      CHECK(next != kMost) << "row " << start << " of a matrix with equal sums cannot be matched";
      if (sender_[next] == kNone) return most;
      settled[next] = true;
      reached = most;
      row = sender_[next];
    }
  }

  std::span<uint64_t> left_;
  uint32_t boxes_;
  uint64_t threshold_ = 0;
  std::array<Bits, kMost> rows_;
  Bits free_columns_{};
  std::array<uint16_t, kMost> receiver_, sender_;  // by row, by column
  std::array<uint16_t, kMost> from_, queue_;       // of a search: the row that reached a column; rows in order
};

BoxStages::BoxStages(uint32_t boxes) : boxes_(boxes), left_(size_t{boxes} * boxes), rows_(boxes), columns_(boxes) {
  CHECK(boxes >= 1 && boxes <= kMostBoxes) << boxes;
  const uint32_t few = std::min(boxes, kFewBoxes);
  const size_t stages = size_t{few} * few + 1;  // Birkhoff's own bound is few^2 - 2 few + 2
  lengths_.reserve(stages);
  receivers_.reserve(stages * boxes);
}

void BoxStages::pad(std::span<const uint64_t> traffic) {
  std::copy(traffic.begin(), traffic.end(), left_.begin());
  std::ranges::fill(rows_, 0);
  std::ranges::fill(columns_, 0);
  for (uint32_t row = 0; row < boxes_; ++row)
    for (uint32_t column = 0; column < boxes_; ++column) {
      rows_[row] += traffic[row * boxes_ + column];
      columns_[column] += traffic[row * boxes_ + column];
    }
  largest_sum_ = std::max(*std::ranges::max_element(rows_), *std::ranges::max_element(columns_));
  for (uint64_t& sum : rows_) sum = largest_sum_ - sum;
  for (uint64_t& sum : columns_) sum = largest_sum_ - sum;
  for (uint32_t row = 0, column = 0; row < boxes_ && column < boxes_;) {
    const uint64_t bytes = std::min(rows_[row], columns_[column]);
    left_[row * boxes_ + column] += bytes;
    rows_[row] -= bytes;
    columns_[column] -= bytes;
    if (rows_[row] == 0)
      ++row;
    else
      ++column;
  }
}

template <uint32_t kWords>
void BoxStages::cut(uint64_t rest) {
  Matching<kWords> matching(left_, boxes_);
  for (uint64_t sum = largest_sum_; sum > rest;) {
    matching.complete();
    const uint64_t length = matching.smallest_entry();
    lengths_.push_back(length);
    receivers_.insert(receivers_.end(), matching.receivers().begin(), matching.receivers().end());
    matching.subtract(length);
    sum -= length;
  }
}

void BoxStages::decompose(std::span<const uint64_t> traffic, uint64_t rest) {
  CHECK_EQ(traffic.size(), left_.size());
  lengths_.clear();
  receivers_.clear();
  pad(traffic);
  if (boxes_ <= 64)
    cut<1>(rest);
  else
    cut<kMostBoxes / 64>(rest);
}

}  // namespace banyan::plan
