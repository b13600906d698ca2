// Rows of a table and their values: what is not zero of a gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace banyan::sparse {

// Row rows[i] has the values [i * width, (i + 1) * width). A table has less than 2^32 rows; single elements are rows of
// width 1. `rows` are rows of the table or positions in a shard, as the holder of the list says; they ascend, and none
// is there twice.
struct RowList {
  std::vector<uint32_t> rows;
  std::vector<float> values;
  friend bool operator==(const RowList&, const RowList&) = default;
};

}  // namespace banyan::sparse
