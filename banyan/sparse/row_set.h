// A set of rows, and where each of them stands among the others: in place of hashing or sorting.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace banyan::sparse {

// A bit for each row. insert() and index_of() are O(1), seal() is O(rows / 64 + members).
class RowSet {
 public:
  explicit RowSet(uint32_t rows) : words_((size_t{rows} + 63) / 64) {}

  void insert(uint32_t row) { words_[row / 64] |= uint64_t{1} << row % 64; }
  // The members, ascending; then index_of() says where a member stands among them.
  std::vector<uint32_t> seal() {
    std::vector<uint32_t> members;
    before_.clear();
    for (size_t word = 0; word < words_.size(); ++word) {
      before_.push_back(static_cast<uint32_t>(members.size()));
      for (uint64_t bits = words_[word]; bits != 0; bits &= bits - 1) {
        members.push_back(static_cast<uint32_t>(word * 64 + static_cast<unsigned>(std::countr_zero(bits))));
      }
    }
    return members;
  }
  size_t index_of(uint32_t row) const {
    const uint64_t lower = words_[row / 64] & ((uint64_t{1} << row % 64) - 1);
    return before_[row / 64] + static_cast<size_t>(std::popcount(lower));
  }
  // Bit row % 64 of word row / 64. Or more of them, before seal().
  std::span<uint64_t> words() { return words_; }

 private:
  std::vector<uint64_t> words_;
  std::vector<uint32_t> before_;  // members in front of each word
};

}  // namespace banyan::sparse
