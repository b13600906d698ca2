// Rows: items by the row that each belongs to, such as links by the node that they leave. Compressed: 4 bytes a row and
// one number an item.
#pragma once

#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

namespace banyan::fabric {

template <typename Id>
class Rows {
 public:
  Rows() = default;
  // Items 0 .. items - 1; item i belongs to row row_of(i). In a row items ascend. Linear.
  template <typename RowOf>
  Rows(size_t rows, size_t items, RowOf row_of) : start_(rows + 1, 0), ids_(items) {
    for (uint32_t i = 0; i < items; ++i) ++start_[row_of(i) + 1];
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
    std::vector<uint32_t> next(start_.begin(), start_.end() - 1);
    for (uint32_t i = 0; i < items; ++i) ids_[next[row_of(i)]++] = Id{i};
  }

  std::span<const Id> operator[](size_t row) const {
    return std::span(ids_).subspan(start_[row], start_[row + 1] - start_[row]);
  }

 private:
  std::vector<uint32_t> start_;
  std::vector<Id> ids_;
};

}  // namespace banyan::fabric
