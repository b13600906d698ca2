// Sums of tables that are sparse by rows.
#include <memory>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/sparse/sparse_all_reduce.h"
#include "bindings/c/handles.h"

using banyan::Error;
using banyan::ErrorCode;
using banyan::c::expect_pointer;
using banyan::c::guarded;
using banyan::codec::WireType;
using banyan::run::SparseAllReduce;
using banyan::run::SparseTable;
using banyan::run::SparseWay;

struct banyan_sparse {
  banyan_comm_t comm;
  SparseAllReduce reduce;
  std::vector<float> residual = {};  // empty where nothing is lost
  banyan::sparse::RowList sum = {};
  std::vector<int64_t> sum_rows = {};
};

namespace {

SparseTable table_of(size_t rows, size_t width, banyan_type_t type, banyan_sparse_way_t way) {
  if (rows == 0 || rows > UINT32_MAX || width == 0 || width > UINT32_MAX) {
    throw Error(ErrorCode::invalid_input, "a sparse table has 1 to 2^32 - 1 rows of 1 to 2^32 - 1 values, not " +
                                              std::to_string(rows) + " of " + std::to_string(width));
  }
  if (way < BANYAN_SPARSE_AUTO || way > BANYAN_SPARSE_SHARDS) {
    throw Error(ErrorCode::invalid_input, "way " + std::to_string(way) + " does not exist");
  }
  SparseTable table = {
      .rows = static_cast<uint32_t>(rows), .width = static_cast<uint32_t>(width), .way = static_cast<SparseWay>(way)};
  if (type != BANYAN_FLOAT32) {
    const auto number = static_cast<uint64_t>(type);
    if (!WireType::is_known(number) || !WireType::of_number(static_cast<uint8_t>(number)).is_coded()) {
      throw Error(ErrorCode::invalid_input,
                  "a sparse table is of BANYAN_FLOAT32 or a code of it, not type " + std::to_string(type));
    }
    table.codec = WireType::of_number(static_cast<uint8_t>(number)).codec();
  }
  return table;
}

}  // namespace

BANYAN_CALL(sparse_create, banyan_sparse_t* table, size_t rows, size_t width, banyan_type_t type,
            banyan_sparse_way_t way, banyan_comm_t comm) {
  return guarded(comm, [&] {
    expect_pointer(table, "table");
    *table = nullptr;
    expect_pointer(comm, "comm");
    banyan::run::Communicator& communicator = comm->communicator();
    SparseTable shape = table_of(rows, width, type, way);
    {
      const std::lock_guard lock(comm->mutex);
      shape.seed = shape.tensor = comm->sparse_tables++;
    }
    auto made = std::unique_ptr<banyan_sparse>(new banyan_sparse{.comm = comm, .reduce = {communicator, shape}});
    if (shape.codec) made->residual.resize(rows * width);
    *table = made.release();
  });
}

BANYAN_CALL(sparse_all_reduce, const int64_t* rows, const float* values, size_t count, banyan_sparse_t table,
            const int64_t** sum_rows, const float** sum_values, size_t* sum_count) {
  return guarded(table != nullptr ? table->comm : nullptr, [&] {
    expect_pointer(table, "table");
    table->comm->communicator();  // or it throws
    if (table->comm->is_finalized) throw Error(ErrorCode::invalid_usage, "the communicator has been finalized");
    const size_t width = table->reduce.table().width;
    try {
      if (count > 0) {
        expect_pointer(rows, "rows");
        expect_pointer(values, "values");
      }
      if (count > SIZE_MAX / sizeof(float) / width) {
        throw Error(ErrorCode::invalid_input, std::to_string(count) + " rows are more than there is memory for");
      }
    } catch (const Error&) {
      table->reduce.refuse(table->comm->timeout);
      throw;
    }
    table->sum = table->reduce.run({.rows = {rows, count},
                                    .values = {values, count * width},
                                    .residual = table->residual,
                                    .timeout = table->comm->timeout});
    table->sum_rows.assign(table->sum.rows.begin(), table->sum.rows.end());
    if (sum_rows != nullptr) *sum_rows = table->sum_rows.data();
    if (sum_values != nullptr) *sum_values = table->sum.values.data();
    if (sum_count != nullptr) *sum_count = table->sum_rows.size();
  });
}

BANYAN_CALL(sparse_residual, banyan_sparse_t table, float** values, size_t* count) {
  return guarded(nullptr, [&] {
    expect_pointer(table, "table");
    expect_pointer(values, "values");
    *values = table->residual.empty() ? nullptr : table->residual.data();
    if (count != nullptr) *count = table->residual.size();
  });
}

BANYAN_CALL(sparse_last_call, banyan_sparse_t table, banyan_sparse_way_t* way, uint64_t* bytes) {
  return guarded(nullptr, [&] {
    expect_pointer(table, "table");
    const banyan::run::SparseStep& step = table->reduce.last_step();
    if (way != nullptr) *way = static_cast<banyan_sparse_way_t>(step.way);
    if (bytes != nullptr) *bytes = step.bytes_sent;
  });
}

BANYAN_CALL(sparse_destroy, banyan_sparse_t table) {
  delete table;
  return BANYAN_SUCCESS;
}
