// Changes of a sparse table's residual, which are taken back where nothing came of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "banyan/sparse/row_list.h"

namespace banyan::run {

// remember() some rows, then write() them; perhaps others, or the same ones, again. Unless commit() is called, all rows
// become what they were. All of it does nothing where the residual is empty. O(values of the rows).
class ResidualUndo {
 public:
  ResidualUndo(std::span<float> residual, size_t width) : residual_(residual), width_(width) {}
  ResidualUndo(const ResidualUndo&) = delete;
  ResidualUndo& operator=(const ResidualUndo&) = delete;
  ~ResidualUndo();

  // Returns their values now, row after row.
  std::vector<float> remember(std::span<const uint32_t> rows);
  void write(std::span<const uint32_t> rows, std::span<const float> values);
  // With the result, which has all rows that were remembered: only what is not finite there is taken back.
  void commit(const sparse::RowList& result);

 private:
  struct Change {
    std::vector<uint32_t> rows;
    std::vector<float> before;
  };

  const std::span<float> residual_;
  const size_t width_;
  std::vector<Change> changes_;
};

}  // namespace banyan::run
