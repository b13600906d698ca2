// Reads and runs MSCCL XML as RCCL would: the judge of our exporter, with which it shares no code.
//
// Written from the format's parser and device interpreter (ROCm/rccl src/misc/msccl/msccl_parser.cc,
// src/device/msccl_kernel_impl.h, limits src/include/msccl/msccl_struct.h). What is modelled:
//   - the XML reader's own narrowness: no <?xml?> declaration, no tabs, one blank before each attribute, 255 characters
//     a value, 4095 elements a GPU;
//   - blocks of all GPUs run at once, each its steps in order, and the whole program once per loop (slice of a chunk);
//   - a connection (from, to, channel) is a FIFO of bounded slots: a send blocks while it is full, a step that receives
//     and sends needs both at once, messages match receives by order;
//   - depid/deps wait for a step of the same loop; nops carry further dependencies to the step behind them; consecutive
//     `re` onto one destination fuse into one step that writes once;
//   - memory as NCCL's callers lay it out, in place or out of place (device_memory.h), and races between blocks.
// Stricter than RCCL, which does not look: counts of matching sends and receives agree, no connection has two blocks at
// one end, dependencies name steps that raise their flag (hasdep="1"), offsets stay in the buffers for all of cnt.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/testing/device_memory.h"

namespace banyan::testing {

struct MscclLimits {
  uint32_t blocks_per_gpu = 64;
  uint32_t steps_per_block = 64;
  uint32_t blocks_per_channel = 32;  // that send, and that receive
  uint32_t count_below = 72;
  uint32_t fused_reductions = 16;
  uint32_t channels = 32;
  uint32_t elements_per_gpu = 4095;  // what the XML reader keeps: algo, all gpus, own tbs and steps
};

enum class MscclType : uint8_t {
  send,
  receive,
  receive_copy_send,
  receive_reduce_copy,
  receive_reduce_send,
  receive_reduce_copy_send,
  copy,
  reduce
};

struct MscclPlace {
  BufferKind buffer = BufferKind::input;
  uint32_t offset = 0;
};

struct MscclStep {
  struct Dependency {
    uint32_t block = 0, step = 0;
  };
  uint32_t number = 0;  // `s` in the file; of the last one where reductions are fused
  MscclType type = MscclType::send;
  std::vector<MscclPlace> sources;  // one, or those of fused reductions
  MscclPlace destination;
  uint32_t count = 0;
  std::vector<Dependency> waits_for;  // its own and those of the nops before it
  bool raises_flag = false;           // hasdep
};

struct MscclBlock {
  static constexpr int32_t kNobody = -1;
  int32_t send_peer = kNobody, receive_peer = kNobody;
  uint32_t channel = 0;
  std::vector<MscclStep> steps;
};

struct MscclGpu {
  uint32_t scratch_chunks = 0;
  std::vector<MscclBlock> blocks;
};

struct MscclProgram {
  std::string name, protocol;
  CollectiveKind kind = CollectiveKind::all_gather;
  uint32_t chunks_per_loop = 0, channels = 0;
  bool in_place = false, out_of_place = false;
  int64_t min_bytes = 0, max_bytes = 0;
  std::vector<MscclGpu> gpus;
};

// Throws Error{invalid_input} naming GPU, block and step, or Error{unsupported} for collectives Banyan does not know.
MscclProgram parse_msccl(std::string_view xml, const MscclLimits& limits = {});

struct MscclRunOptions {
  static constexpr uint32_t kAllInOne = 1000;
  uint64_t seed = 0;  // of the interleaving and of the data
  uint32_t slots = 2;
  uint32_t chunks_per_message = kAllInOne;  // a larger cnt travels in parts, as when chunks fill the FIFO's buffers
  uint32_t chunk_elements = 3;
  uint32_t loops = 1;  // at most chunk_elements
  bool in_place = false;
  uint32_t root = 0;  // of broadcast and reduce; the format does not say
};

struct MscclRun {
  RankArrays outputs;
  uint64_t steps = 0, messages = 0;
};

MemoryShape shape_of(const MscclProgram& program, const MscclRunOptions& options);

// Throws Error{invalid_input} on a deadlock (who waits for whom), a race or a forbidden touch of memory,
// Error{mismatch} when an output stays unwritten or in_place is not what the program is for.
MscclRun run_msccl(const MscclProgram& program, const RankArrays& inputs, const MscclRunOptions& options);

struct MscclCheckOptions {
  uint32_t root = 0;
  uint32_t seeds = 20;
  uint32_t fewest_slots = 2;  // what protocol Simple has: 8 steps, of which a chunk takes 4
};
// Parses, and runs in each placement the file claims, under many interleavings, with fewest_slots and up to two more, 1
// to 3 loops and messages whole or in parts, on data of its own; throws as above, and Error{mismatch} when an output is
// not what the collective promises.
void check_msccl(std::string_view xml, const MscclCheckOptions& options = {});

}  // namespace banyan::testing
