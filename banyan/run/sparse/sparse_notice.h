// SparseNotice: the message of each rank to every other at the beginning of a step. It says enough to take memory for
// all messages, and to choose the same way as the others. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "banyan/run/sparse/sparse_table.h"
#include "banyan/sparse/row_message.h"

namespace banyan::run {

struct SparseNotice {
  uint64_t table = 0;  // a digest of what is not said below
  uint64_t step = 0;
  uint32_t rows = 0, width = 0, tensor = 0;  // of the table
  uint32_t entries = 0;                      // rows that the rank has
  uint64_t bytes_for_you = 0;                // the message to the owner that reads this
  uint64_t bytes_for_all = 0;                // the message of all rows
  uint64_t is_refused = 0;                   // 1: the rank was called with wrong arguments and has nothing to add
};

// The context of the message of all rows of a rank, by permuted row.
sparse::MessageContext whole_context(const SparseTable& table, uint64_t step);
// `permuted`: the rows of this rank. Without bytes_for_you.
SparseNotice notice_of(const SparseTable& table, uint64_t step, std::span<const uint32_t> permuted);

// Throws Error{mismatch}, naming the sender, where the rank calls something else.
void expect_alike(const SparseNotice& notice, const SparseNotice& own, const std::string& sender);
// Throws Error{mismatch}, naming the sender, where it has refused its arguments.
void expect_taken(const SparseNotice& notice, const std::string& sender);
// Throws Error{invalid_input}, naming the sender, for numbers that no rank can mean.
void expect_possible(const SparseNotice& notice, const SparseTable& table, const std::string& sender);

// Equal for equal arguments. `last`: the step before, or none yet (rank_share is 0).
SparseWay choose_way(const SparseTable& table, std::span<const SparseNotice> notices, const SparseStep& last);

// The code of a table that goes densely: none in place of `sign`, which makes something else of zeros.
std::optional<codec::Codec> dense_codec(const SparseTable& table);
double bytes_of_value(const std::optional<codec::Codec>& codec);  // in blocks that are full

}  // namespace banyan::run
