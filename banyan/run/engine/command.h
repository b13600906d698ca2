// EngineCommand: an execution that an engine is told to start. MismatchError: a peer was told something else.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "banyan/base/error.h"
#include "banyan/element/reduce.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/engine/slice_codec.h"

namespace banyan::run {

using CallSignature = std::array<uint64_t, 4>;

// A lane of a plan, as its executions use it.
struct LaneUse {
  uint32_t peer = 0, lane = 0;
};

struct EngineCommand {
  std::shared_ptr<const RankPlan> plan;  // shared with the caller, who may use it again
  // The reduction of contributions; a plan without in-trees uses only the type. An avg is divided at the root of each
  // tree. The caller has scaled whatever is to be scaled before it contributes.
  element::ReduceTask task = {};
  // The same on all ranks of the plan. The engine only compares them: the sequence may be that of the communicator or
  // of a pair of ranks, the signature stands for whatever must be equal everywhere.
  uint64_t sequence = 0;
  CallSignature signature{};
  // As large as the plan says. They stay where they are until the execution is over; the input is only read. They may
  // share memory where a role's input and its output are the same place, or where the plan shuffles in any way.
  std::span<const std::byte> input = {};
  std::span<std::byte> output = {};
  SliceCodec* codec = nullptr;  // of all slices, on all ranks; the caller's, until the execution is over
  // With a lossy codec, each as large as the input, or empty: what earlier executions have lost of this rank's input,
  // which is added to it, and what this one loses. With them, sum over ranks (input + residual) == result + sum over
  // ranks lost, but for rounding (of an avg, the result times the divisor). They do not overlap; `lost` is written more
  // than once when the execution is repeated.
  std::span<const std::byte> residual = {};
  std::span<std::byte> lost = {};
  // Nobody waits for the confirmation of this rank: between two ranks, it goes with the next execution, or by let_go().
  bool confirms_late = false;
};

// A peer began another operation than this rank, at the same place of the order.
class MismatchError : public Error {
 public:
  struct Side {
    uint64_t sequence = 0;
    CallSignature signature{};
  };
  MismatchError(uint32_t peer, const Side& own, const Side& others);

  uint32_t peer() const { return peer_; }
  const Side& own() const { return own_; }
  const Side& others() const { return others_; }

 private:
  uint32_t peer_;
  Side own_, others_;
};

}  // namespace banyan::run
