// Sums of tables that are sparse by rows, for C++20: the calls of Sparse sums in banyan.h, with types.
//
//   banyan::SparseTable table(world, {.rows = 50000, .width = 64, .codec = "int8"});
//   const banyan::SparseSum sum = table.all_reduce(rows, gradients);   // rows: std::vector<std::int64_t>, or a span
#pragma once

#include <banyan/cxx20.h>
#ifdef BANYAN_CXX20

#include <banyan/communicator.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace banyan {
inline namespace v0 {

enum class SparseWay {
  automatic = BANYAN_SPARSE_AUTO,
  dense = BANYAN_SPARSE_DENSE,
  gather = BANYAN_SPARSE_GATHER,
  shards = BANYAN_SPARSE_SHARDS
};

// Valid until the next call of its table.
struct SparseSum {
  std::span<const std::int64_t> rows;  // ascending
  std::span<const float> values;       // of row rows[i] from i * width on
};

// Movable; must be destroyed before its communicator.
class SparseTable {
 public:
  struct Shape {
    std::size_t rows = 0, width = 1;
    const char* codec = nullptr;  // "int8", and so on; none: float32
    SparseWay way = SparseWay::automatic;
  };
  SparseTable(const Communicator& communicator, const Shape& shape) : width_(shape.width) {
    banyan_type_t type = BANYAN_FLOAT32;
    if (shape.codec != nullptr) check(banyan_coded_type(shape.codec, &type));
    check(banyan_sparse_create(&handle_, shape.rows, shape.width, type, static_cast<banyan_sparse_way_t>(shape.way),
                               communicator.handle()));
  }
  ~SparseTable() { banyan_sparse_destroy(handle_); }
  SparseTable(SparseTable&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), width_(other.width_) {}
  SparseTable& operator=(SparseTable&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(width_, other.width_);
    return *this;
  }

  // `values` has width values for each of the rows. Collective; blocks.
  SparseSum all_reduce(std::span<const std::int64_t> rows, std::span<const float> values) {
    if (values.size() != rows.size() * width_) {
      throw Error(ErrorCode::invalid_argument, "a sparse sum of " + std::to_string(rows.size()) + " rows takes " +
                                                   std::to_string(rows.size() * width_) + " values, not " +
                                                   std::to_string(values.size()));
    }
    const std::int64_t* sum_rows = nullptr;
    const float* sum_values = nullptr;
    std::size_t count = 0;
    check(banyan_sparse_all_reduce(rows.data(), values.data(), rows.size(), handle_, &sum_rows, &sum_values, &count));
    return {{sum_rows, count}, {sum_values, count * width_}};
  }
  // The losses of codes on this rank, between two calls: rows * width values; empty without a codec.
  std::span<float> residual() const {
    float* values = nullptr;
    std::size_t count = 0;
    check(banyan_sparse_residual(handle_, &values, &count));
    return {values, count};
  }
  SparseWay last_way() const {
    banyan_sparse_way_t way{};
    check(banyan_sparse_last_call(handle_, &way, nullptr));
    return static_cast<SparseWay>(way);
  }

 private:
  banyan_sparse_t handle_ = nullptr;
  std::size_t width_;
};

}  // namespace v0
}  // namespace banyan

#endif  // BANYAN_CXX20
