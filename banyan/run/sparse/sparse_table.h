// SparseTable: the properties of a table that is sparse by rows, equal on all ranks. SparseStep: how a step of it went.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "banyan/codec/codec.h"
#include "banyan/sparse/cost.h"

namespace banyan::run {

enum class SparseWay : uint8_t { automatic, dense, gather, shards };
std::string_view to_string(SparseWay way);

// Equal on all ranks.
struct SparseTable {
  uint32_t rows = 1;   // at least 1
  uint32_t width = 1;  // values of a row, at least 1
  std::optional<codec::Codec> codec = std::nullopt;
  SparseWay way = SparseWay::automatic;
  uint64_t seed = 0;    // of the permutation, and of stochastic codecs
  uint32_t tensor = 0;  // a number for it, in messages
  // The link of a rank, for the choice of the way: by default 10 Gb/s, and 20 microseconds a step.
  sparse::LinkCost link = {.bytes_per_second = 1.25e9, .latency_seconds = 20e-6};
};

// The outcome of the last step.
struct SparseStep {
  SparseWay way = SparseWay::automatic;  // none yet
  uint64_t bytes_sent = 0;               // to other ranks; of dense, as if by a ring
  double rank_share = 0;                 // of the table's rows, on a rank in the mean
  double union_share = 0;
};

}  // namespace banyan::run
