// The memory of all GPUs of an interpreted program, as NCCL callers lay it out, and what a collective must leave there.
//
// A GPU has an input, an output and a scratch buffer, counted in chunks. In place, input and output are one buffer:
// the input of allgather is the output from chunk rank * input_chunks on, the output of reduce-scatter is the input
// from chunk rank * output_chunks on, and for the other kinds they are the same. What NCCL promises its caller is
// refused here:
//   - nobody writes an input that is not output as well (it is const for the library);
//   - nobody reads what was never written: scratch, outputs, the input of a broadcast anywhere but at the root;
//   - nobody writes the output of a reduce anywhere but at the root.
// Every touch goes through a RaceDetector. Sums wrap around, so that values may use all 64 bits.
//
// A chunk may be cut into slices for programs that loop over them; places are (GPU, buffer, chunk, slice).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "banyan/schedule/collective.h"
#include "banyan/testing/interleaving.h"

namespace banyan::testing {

enum class BufferKind : uint8_t { input, output, scratch };

using RankArrays = std::vector<std::vector<int64_t>>;  // by rank

struct MemoryShape {
  CollectiveKind kind = CollectiveKind::all_gather;
  uint32_t ranks = 0;
  uint32_t root = 0;                        // of broadcast and reduce
  uint32_t total_chunks = 0;                // of the collective's whole buffer; a multiple of ranks where it is sharded
  std::vector<uint32_t> scratch_chunks{};   // by rank
  uint32_t chunk_elements = 0, slices = 1;  // slices <= chunk_elements
  bool in_place = false;

  uint32_t input_chunks() const { return kind == CollectiveKind::all_gather ? total_chunks / ranks : total_chunks; }
  uint32_t output_chunks() const {
    return kind == CollectiveKind::reduce_scatter ? total_chunks / ranks : total_chunks;
  }
};

// Data that depends on rank and position, so that a shard that is misplaced, lost or added twice shows.
RankArrays inputs_for(const MemoryShape& shape, uint64_t seed);
// What the outputs must be; empty for ranks whose output the collective leaves undefined.
RankArrays outputs_for(const MemoryShape& shape, const RankArrays& inputs);
// Throws Error{mismatch} naming the first GPU, chunk and element that differ.
void expect_outputs(const MemoryShape& shape, const RankArrays& outputs, const RankArrays& expected);

class DeviceMemory {
 public:
  struct Cell {
    uint32_t rank = 0;
    BufferKind buffer = BufferKind::input;
    uint32_t chunk = 0, slice = 0;
  };
  using Values = std::vector<uint64_t>;

  // `inputs` as inputs_for makes them. `mend` goes to the messages about races.
  DeviceMemory(const MemoryShape& shape, const RankArrays& inputs, std::function<std::string(uint32_t)> step_name,
               std::string mend);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  // Throw Error{invalid_input} on a race and on what the head of this file forbids. Cells must exist.
  Values read(const Cell& cell, const Touch& touch, const VectorClock& clock);
  void write(const Cell& cell, const Values& values, const Touch& touch, const VectorClock& clock);

  // The caller's own use of all of a rank's memory: before the program (touches nothing yet) or after it.
  void caller_takes(uint32_t rank, const Touch& touch, const VectorClock& clock);

  // Throws Error{mismatch} when a part of a defined output was never written.
  RankArrays outputs() const;
  std::string name_of(uint32_t place) const;

 private:
  struct Region {  // of one rank; in chunks, from the rank's base
    uint32_t base = 0, chunks = 0;
    uint32_t input = 0, output = 0, scratch = 0;
  };
  uint32_t chunk_at(uint32_t rank, BufferKind buffer, uint32_t chunk) const;
  uint32_t place_of(const Cell& cell) const {
    return chunk_at(cell.rank, cell.buffer, cell.chunk) * shape_.slices + cell.slice;
  }
  uint32_t slice_begin(uint32_t slice) const;
  void lay_out(uint32_t rank, const RankArrays& inputs);

  MemoryShape shape_;
  std::vector<Region> regions_;
  std::vector<uint64_t> values_;  // chunk after chunk
  std::vector<bool> written_;     // by place
  std::vector<bool> writable_;    // by chunk
  std::function<std::string(uint32_t)> step_name_;
  RaceDetector races_;
};

}  // namespace banyan::testing
