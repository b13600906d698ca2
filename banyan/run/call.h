// Call: one operation of a communicator, as a command. It describes buffers and owns none, so that whoever carries it
// out may live in the caller's thread, in another thread, or elsewhere.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "banyan/run/element/data_type.h"

namespace banyan {

enum class CallKind : uint8_t {
  all_reduce,
  reduce,
  broadcast,
  all_gather,
  all_gather_v,
  reduce_scatter,
  reduce_scatter_v,
  all_to_all,
  all_to_all_v,
  gather,
  scatter,
  barrier,
  send,
  recv
};

std::string_view to_string(CallKind kind);

// Buffers, counts and displacements are as bindings/c/banyan.h says, counts in elements. The spans are empty where the
// kind has none; empty displacements mean one piece after the other.
struct Call {
  CallKind kind = CallKind::barrier;
  DataType type = DataType::uint8;
  ReduceOp op = ReduceOp::sum;
  double factor = 1;   // of premul_sum
  uint32_t other = 0;  // the root, or the peer of send and recv
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  uint64_t count = 0;
  std::span<const size_t> send_counts = {}, send_displacements = {};
  std::span<const size_t> recv_counts = {}, recv_displacements = {};

  bool reduces() const {
    return kind == CallKind::all_reduce || kind == CallKind::reduce || kind == CallKind::reduce_scatter ||
           kind == CallKind::reduce_scatter_v;
  }
  bool is_rooted() const {
    return kind == CallKind::reduce || kind == CallKind::broadcast || kind == CallKind::gather ||
           kind == CallKind::scatter;
  }
  bool is_between_two() const { return kind == CallKind::send || kind == CallKind::recv; }
  // Elements of the send buffer and of the recv buffer of rank `rank` among `size`.
  uint64_t send_elements(uint32_t rank, uint32_t size) const;
  uint64_t recv_elements(uint32_t rank, uint32_t size) const;
};

// What all ranks must call alike, in numbers that fit a shared note.
using CallNumbers = std::array<uint64_t, 4>;
CallNumbers numbers_of(const Call& call);
// A number that differs when the numbers do, but for one case in 2^64.
uint64_t signature_of(const CallNumbers& numbers);

// "allreduce of 1024 float32 (sum)", "broadcast of 10 int8 from rank 3".
std::string describe(const CallNumbers& numbers);
// "rank 3 called allreduce of 1000 float32 (sum) where this rank, 0, called allreduce of 1024 float32 (sum): the counts
// differ".
std::string describe_mismatch(uint32_t own, const CallNumbers& ours, uint32_t peer, const CallNumbers& theirs);

}  // namespace banyan
