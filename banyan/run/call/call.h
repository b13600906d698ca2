// Call: one operation of a communicator, as a command. It describes buffers and owns none, so that whoever carries it
// out may live in the caller's thread, in another thread, or elsewhere.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/codec/wire_type.h"
#include "banyan/element/data_type.h"
#include "banyan/run/call/operation.h"
#include "banyan/run/call/residual.h"

namespace banyan::run {

inline constexpr uint32_t kAnyRank = kNoRank;

// Buffers, counts and displacements are as include/banyan/banyan.h says, counts in elements. The spans are empty where
// the kind has none; empty displacements mean one piece after the other.
struct Call {
  OperationKind kind = OperationKind::barrier;
  element::DataType type = element::DataType::uint8;  // in memory
  std::optional<codec::Codec> codec = {};             // of float32, on the wire
  Residual* residual = nullptr;                       // of a sum with a codec; null: what is lost is lost
  element::ReduceOp op = element::ReduceOp::sum;
  double factor = 1;   // of premul_sum
  uint32_t other = 0;  // the root, or the peer of send and recv; kAnyRank: a recv takes from whoever sends first
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  uint64_t count = 0;
  std::span<const size_t> send_counts = {}, send_displacements = {};
  std::span<const size_t> recv_counts = {}, recv_displacements = {};
  uint32_t tag = 0;                      // of send and recv: a recv takes only what was sent with the same
  std::chrono::milliseconds timeout{0};  // for it to make no progress; 0: that of the communicator

  codec::WireType wire_type() const { return codec ? codec::WireType(*codec) : codec::WireType(type); }
  // Elements of the send buffer and of the recv buffer of rank `rank` among `size`.
  uint64_t send_elements(uint32_t rank, uint32_t size) const;
  uint64_t recv_elements(uint32_t rank, uint32_t size) const;
};

// The counts of one call, for longer than their owner keeps them. The call and its counts may be moved together.
class OwnedCounts {
 public:
  OwnedCounts() = default;
  OwnedCounts(OwnedCounts&&) = default;
  OwnedCounts& operator=(OwnedCounts&&) = default;

  // Copies what the spans of the call point to, and has them point to the copies.
  void keep(Call& call) {
    std::span<const size_t>* const spans[] = {&call.send_counts, &call.send_displacements, &call.recv_counts,
                                              &call.recv_displacements};
    for (size_t i = 0; i < copies_.size(); ++i) {
      copies_[i].assign(spans[i]->begin(), spans[i]->end());
      *spans[i] = copies_[i];
    }
  }

 private:
  std::array<std::vector<size_t>, 4> copies_;
};

// "allreduce of 1024 float32 sum", "send of 40 bytes (tag 7) to rank 1".
std::string words_of(const Call& call);
// A rank that does not exist, as its caller gave it: "-1", "7".
std::string as_given(uint32_t rank);

// Throws Error{invalid_input} for a call that rank `rank` among `size` could not carry out, whatever the others call.
void expect_possible(const Call& call, uint32_t rank, uint32_t size);

// The parts of a call that must be equal on all ranks, in numbers that fit a shared note.
using CallNumbers = std::array<uint64_t, 4>;
CallNumbers numbers_of(const Call& call);
// A number that differs when the numbers do, but for one case in 2^64.
uint64_t signature_of(const CallNumbers& numbers);

// The call that the numbers stand for, as the `sequence`-th of its rank: for words about it (record/operation.h).
OperationRecord record_of(const CallNumbers& numbers, uint64_t sequence);

}  // namespace banyan::run
