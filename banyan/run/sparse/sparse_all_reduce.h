// Allreduce of a table that is sparse by rows, such as the gradient of an embedding: a composition of a communicator's
// collectives.
//
//   SparseAllReduce table(world, {.rows = 50'000, .width = 64});
//   RowList sum = table.run({.rows = words, .values = gradients});   // equal bits on all ranks
//
// Each rank gives some rows, in any order and some of them several times; all get the rows that any rank has,
// ascending, with their sums. There are three ways to it, which give the same rows:
//
//   shards   Each row has an owner (sparse/row_shards.h). Ranks send each owner its rows, the owner adds them up in the
//            order of the ranks and sends the sum to all. Four calls.
//   gather   Every rank gets the rows of all, and adds them up in the order of the ranks. Two calls.
//   dense    The table's planned allreduce, and one of a bit for each row. Three calls. Its plan orders the additions.
//
// *Automatic* takes what sparse/cost.h expects to be quickest, anew in each step and alike on all ranks: the first call
// of each step tells everybody how many rows every rank has and how long its messages will be; the share of rows in the
// union is taken from the step before, in the first step as if no two ranks had a row in common. So a table that has
// become dense goes densely from that very step on.
//
// *Codec.* Values go in a fixed-rate code. The rank that encodes keeps what the code loses in its own residual, at that
// row: a rank the losses of what it sends, an owner those of its sums, which it replaces by what the others decode. The
// loss kept for a row is added when this rank has the row again, or owns it and any rank has it. So over all ranks
//
//   sum of (values + residual before) == result + sum of residuals after,
//
// but for the rounding of float32. Nothing was added to a result that is not finite: all ranks keep the losses they had
// for it.
// A call that fails leaves the residual as it was.
//
// Messages are checked before memory is taken for what they announce. Errors: invalid_input for rows outside the table
// and counts that do not fit; the first exchange tells the others, on which the call is a mismatch that names this
// rank. Nothing has changed then, and all ranks are in step. Mismatch, naming the rank, where a rank calls with another
// table or step; invalid_input naming the sender of a damaged message, after which the communicator is in error; and
// those of the communicator.
// One thread at a time.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/sparse/sparse_notice.h"
#include "banyan/run/sparse/sparse_table.h"
#include "banyan/sparse/row_list.h"
#include "banyan/sparse/row_message.h"
#include "banyan/sparse/row_shards.h"

namespace banyan::run {

class ResidualUndo;

struct SparseGradient {
  std::span<const int64_t> rows;
  std::span<const float> values;   // rows.size() * width
  std::span<float> residual = {};  // of this rank: rows * width of the table, or empty, which forgets what is lost
  std::chrono::milliseconds timeout{0};  // as in Call
};

class SparseAllReduce {
 public:
  // Collective in that all ranks make one; nothing is sent. The communicator outlives it.
  SparseAllReduce(Communicator& communicator, const SparseTable& table);

  const SparseTable& table() const { return table_; }
  // Collective; blocks. O(table.rows / 64 + values that go in or out); dense: O(table). Rows are natural ones.
  sparse::RowList run(const SparseGradient& gradient);
  // Collective, in the place of run(): tells the others that this rank was called with something that it cannot take,
  // so that they do not wait for it. Throws nothing: what was refused is the caller's error.
  void refuse(std::chrono::milliseconds timeout);
  const SparseStep& last_step() const { return last_; }

 private:
  struct Rows;      // of this rank
  struct Exchange;  // a step under way

  Rows own_rows(const SparseGradient& gradient) const;
  void expect_fits(const SparseGradient& gradient) const;
  std::vector<uint32_t> positions_in(const Rows& own, uint32_t shard) const;
  std::vector<uint32_t> rows_at(uint32_t shard, std::span<const uint32_t> positions) const;
  sparse::MessageContext context_of(uint32_t shard) const;  // of a contribution
  sparse::MessageContext context_of_all() const { return whole_context(table_, steps_); }
  uint64_t seed_of(uint32_t shard, sparse::MessageKind kind) const;

  // With nothing for own, this rank refuses.
  std::vector<SparseNotice> exchange_notices(const Rows* own, std::chrono::milliseconds timeout);
  sparse::RowList carry_out(const Exchange& exchange);
  sparse::RowList by_shards(const Exchange& exchange, SparseStep& step);
  sparse::RowList by_gather(const Exchange& exchange, SparseStep& step);
  sparse::RowList densely(const Exchange& exchange, SparseStep& step);
  sparse::RowList sum_of_own_shard(const Exchange& exchange, SparseStep& step);
  std::vector<std::byte> message_of(const sparse::MessageContext& context, std::span<const uint32_t> positions,
                                    std::span<const uint32_t> rows, std::span<const float> values, ResidualUndo& undo);
  std::vector<std::byte> all_gather(std::span<const std::byte> own, std::span<const size_t> counts,
                                    std::chrono::milliseconds timeout);

  Communicator& communicator_;
  const SparseTable table_;
  const sparse::RowShards whole_, shards_;  // in one shard, and in one for each rank: permuted alike
  uint64_t steps_ = 0;
  SparseStep last_;
};

}  // namespace banyan::run
