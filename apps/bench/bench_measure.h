// The measurements of `banyan bench`: one collective of one size, by the conventions of nccl-tests.
//
// A size is the larger of what a rank sends and receives, in bytes: of an allgather, a reduce-scatter, an all-to-all, a
// gather or a scatter it is what the counts of all ranks amount to. algbw is size over time; busbw is algbw times what
// the links of a ring would carry of it: 2 (n - 1) / n of an allreduce, (n - 1) / n of those just named, else 1.
#pragma once

#include <banyan/banyan.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/collective_kind.h"
#include "banyan/codec/wire_type.h"
#include "banyan/element/data_type.h"

namespace banyan::app {

// A collective, or none: sendrecv, where each rank sends to the next.
using BenchKind = std::optional<CollectiveKind>;
inline constexpr BenchKind kSendRecv = std::nullopt;

// The traits of a kind. Those of sendrecv: its name, no root, no reduction, no shards.
const CollectiveTraits& bench_traits(BenchKind kind);
double bench_busbw_factor(BenchKind kind, uint32_t ranks);
// As on the command line. Throws Error{invalid_input} with the nearest and all known names.
BenchKind parse_bench_kind(std::string_view text);
std::vector<BenchKind> all_bench_kinds();

struct BenchCase {
  BenchKind kind = CollectiveKind::all_reduce;
  element::DataType type = element::DataType::float32;
  std::optional<codec::Codec> codec = {};         // of float32, on the wire
  element::ReduceOp op = element::ReduceOp::sum;  // one that `type` can be reduced by, not premul_sum
  uint32_t root = 0;
  uint64_t count = 0;  // as the call takes it

  codec::WireType wire_type() const { return codec ? codec::WireType(*codec) : codec::WireType(type); }
  uint64_t bytes(uint32_t ranks) const;
  // The case of about so many bytes: rounded down to whole elements, for each rank where there is a count for each.
  static uint64_t count_of(BenchKind kind, element::DataType type, uint64_t bytes, uint32_t ranks);
};

struct BenchCell {
  double microseconds = 0;      // of one call, that of the slowest rank; the median of several blocks
  double algbw = 0, busbw = 0;  // GB/s of 10^9 bytes
  // Wrong elements, over all ranks; nothing when they were not compared. With a codec: elements whose bits differ
  // between ranks that must have equal ones, and of every 64th element those whose error exceeds the largest magnitude
  // of the exact result within 512 elements.
  std::optional<uint64_t> wrong;
};

struct BenchRow {
  BenchCase what;
  uint64_t bytes = 0;
  std::optional<BenchCell> out_of_place, in_place;  // nothing when it was not asked for, or there is no such thing
};

struct BenchOptions {
  uint64_t warmup = 5;
  std::optional<uint64_t> iterations;  // measured calls of a case; nothing: as many as fill min_seconds
  double min_seconds = 0.1;            // of all measured calls of a case together
  uint64_t checks = 1;                 // how often results are compared
  bool in_place = true, out_of_place = true;
  bool is_registered = false;  // buffers from banyan_mem_alloc
};

// The number of calls that take about `seconds`. `seconds_of` makes so many calls and returns their time, equal on all
// ranks. Trials grow until one takes a good part of the time: a single call is no measure of many, since the first ones
// on a busy machine may be a hundred times quicker or slower than those that follow.
uint64_t calls_that_fill(double seconds, const std::function<double(uint64_t)>& seconds_of);

// Measures on a communicator; collective over its ranks, with the same arguments. Every rank gets the same row. Throws
// Error with the text of a call that has failed, Error{unsupported} where no exact answer exists for so many ranks.
class BenchRunner {
 public:
  BenchRunner(banyan_comm_t comm, BenchOptions options);

  uint32_t rank() const { return rank_; }
  uint32_t ranks() const { return ranks_; }
  BenchRow measure(const BenchCase& what);

 private:
  class Buffers;
  BenchCell measure(const BenchCase& what, bool in_place);
  void call(const BenchCase& what, const Buffers& buffers) const;
  double slowest(double seconds) const;
  std::vector<uint64_t> blocks(const std::function<double(uint64_t)>& seconds_of) const;
  uint64_t count_wrong(const BenchCase& what, bool in_place, Buffers& buffers) const;
  uint64_t count_wrong_codes(const BenchCase& what, bool in_place) const;
  void expect(banyan_result_t result) const;

  const banyan_comm_t comm_;
  const BenchOptions options_;
  uint32_t rank_ = 0, ranks_ = 1;
};

}  // namespace banyan::app
