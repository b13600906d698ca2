// Engine: follows one rank's plan, and holds no algorithm of its own.
//
//   Engine engine(plan, transport, {.reduction = {type, op}});
//   for (;;) {
//     engine.start(input, output);
//     while (!engine.is_done()) {
//       if (!engine.progress()) transport.wait(100ms);
//     }
//   }
//
// A chunk moves in slices. Up the in-tree, a rank adds the slices of its children to its own input, always in the order
// of the plan, and sends the sum to its parent; the root turns a finished slice round into the out-tree at once, so
// that spreading slice s overlaps reducing slice s + 1. The order of additions does not depend on timing, so equal
// inputs give equal bits.
//
// Messages. A stream (tree edge) sends its slices in order, each as a 16-byte header and its elements. All streams of a
// directed pair share the transport's one stream of bytes and take turns in it, slice by slice.
//
// Memory besides input and output: `window` slices for each in-tree child, and for each chunk that this rank reduces on
// the way to another root. That of a child is touched only when its slice comes before its turn.
//
// Why it cannot deadlock although transports hold few bytes:
//   1. The oldest message of every pair can always be taken in, whatever else this rank waits for. A slice of an
//      out-tree goes to its place in the output. A slice of an in-tree has a place kept for it: a child starts with
//      credit for `window` slices, and gets one more with each slice that its parent has added. A credit is a number.
//      So no message stands in the way of another, and a full transport always empties.
//   2. Hence a slice that is ready and has credit gets sent. A rank adds slice s of a child when it has added those of
//      the children before it and has sent slice s - window of its own; the first follows from the leaves upwards, the
//      second from the root downwards, which waits for nobody. In-trees have no cycles, so every slice reaches its
//      root.
//   3. Then every slice reaches the leaves of its out-tree, where nothing needs credit.
//
// Executions of one plan may follow each other with no barrier between: each takes from every pair exactly the messages
// that belong to it. For that a receiver gives no credit that its sender will not use.
//
// One thread. Plan, transport and buffers belong to the caller and outlive the execution.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "banyan/run/element/data_type.h"
#include "banyan/run/engine/rank_plan.h"
#include "banyan/run/transport/transport.h"

namespace banyan {

struct EngineOptions {
  Reduction reduction;
  uint64_t slice_elements = 32 * 1024;  // equal on all ranks; at least 1, at most 2^24
  uint32_t window = 4;                  // equal on all ranks; at least 1
};

class Engine {
 public:
  static constexpr uint64_t kMaxSliceElements = uint64_t{1} << 24;

  Engine(const RankPlan& plan, Transport& transport, const EngineOptions& options);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // Begins an execution, when none is under way. `input` and `output` hold the elements that the plan says, in the
  // order of the buffer. They may be the same place where both stand for the same elements; `output` overlaps `input`
  // nowhere else.
  void start(std::span<const std::byte> input, std::span<std::byte> output);

  // Moves what can be moved now, at most a message or so for each peer. False when nothing could be moved.
  // Throws what the transport throws, and Error{mismatch} naming the peer when it does not follow the same plan; the
  // engine is of no use after that.
  bool progress();

  // Every element of the output is in place, the input is no longer needed, and all that peers need has been sent.
  bool is_done() const;

  // Elements' bytes that this rank sends in one execution.
  uint64_t bytes_sent_per_execution() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace banyan
