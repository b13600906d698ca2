// Reads and runs MSCCL++ execution plans as its executor would: the judge of our exporter, sharing no code with it.
//
// Written from the executor's plan reader and kernel (microsoft/mscclpp src/core/executor/execution_plan.cc,
// src/core/include/execution_kernel.hpp, limits execution_common.hpp). A block is many threads, and most of what goes
// wrong in such plans is one of these, all of which are found by vector clocks, whatever the interleaving:
//   - data operations (copy, get, put over memory channels, re, res, rre, rres) are done by all threads of a block, but
//     signals, waits, semaphores and port operations each by one thread: the i-th channel's by thread i. Nothing makes
//     the threads meet but nop and barrier. So wait, nop, re, nop, signal; a put right before a signal is not covered
//     by it.
//   - a put over a port channel goes on by itself. A later signal of the same channel is delivered after it; the source
//     is free again only after a flush, or when the peer has answered.
//   - what a peer put is there only after a wait for a signal that follows it. Relaxed signals and waits order nothing
//     but the start of the kernels.
//   - a GPU's memory is its caller's until its kernel starts and again when all its blocks have ended: a peer must have
//     heard of the start before it reads or writes there, and the last block must have heard that it is done.
//   - signals and semaphores that are left over would be taken by the next launch.
//   - a sum by a switch (glres) reads a place on all ranks of its group and writes one on all of them, by all threads.
// Not interpreted, and refused as such: packets (LL), gstore, pipelines and blocks that share an operation (tbg_info);
// Banyan does not export them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/testing/device_memory.h"

namespace banyan::testing {

struct MscclppLimits {
  uint32_t ops_per_block = 64;
  uint32_t channels_per_block = 16;  // of each type; remote buffers as well
  uint32_t channels_per_op = 8;
  uint32_t buffers_per_op = 10;  // on each side
  uint32_t barriers = 16;        // per GPU
  uint32_t semaphores = 16;      // per GPU
};

enum class MscclppKind : uint8_t {
  nop,
  barrier,
  signal,
  relaxed_signal,
  wait,
  relaxed_wait,
  flush,
  port_put,  // put, pws and pwsf over port channels
  copy,      // copy, get, and put over memory channels: one source for each destination
  reduce,    // re, res, rre, rres: all sources summed into each destination
  acquire,
  release
};

struct MscclppRange {
  uint32_t rank = 0;
  BufferKind buffer = BufferKind::input;
  uint32_t first = 0, count = 0;  // chunks
};

struct MscclppOp {
  MscclppKind kind = MscclppKind::nop;
  std::string name;                // as in the file
  std::vector<uint32_t> channels;  // into MscclppPlan::channels; the i-th belongs to thread i
  std::vector<MscclppRange> sources, destinations;
  bool signals = false, flushes = false;  // port_put: pws, pwsf
  uint32_t barrier = 0, barrier_blocks = 0;
  std::vector<uint32_t> semaphores;
};

// One end of a connection. The n-th memory (port) channel from a to b belongs to the n-th from b to a.
struct MscclppChannel {
  static constexpr uint32_t kNone = ~uint32_t{0};
  uint32_t rank = 0, peer = 0;
  bool port = false;
  uint32_t number = 0;       // among the rank's channels of its type
  uint32_t partner = kNone;  // the other end, into MscclppPlan::channels
};

struct MscclppGpu {
  uint32_t scratch_chunks = 0;
  std::vector<std::vector<MscclppOp>> blocks;
  std::vector<uint32_t> semaphores;  // their first values
};

struct MscclppPlan {
  std::string name;
  CollectiveKind kind = CollectiveKind::all_gather;
  bool in_place = false;
  uint32_t total_chunks = 0;
  std::vector<MscclppChannel> channels;
  std::vector<MscclppGpu> gpus;
};

// Throws Error{invalid_input} naming GPU, block and operation, or Error{unsupported} for what is not interpreted.
MscclppPlan parse_mscclpp(std::string_view json, const MscclppLimits& limits = {});

struct MscclppRunOptions {
  uint64_t seed = 0;
  uint32_t chunk_elements = 2;
  uint32_t root = 0;  // of broadcast and reduce; the format does not say
};

struct MscclppRun {
  RankArrays outputs;
  uint64_t operations = 0;
};

MemoryShape shape_of(const MscclppPlan& plan, const MscclppRunOptions& options);

// Throws Error{invalid_input} on a deadlock (who waits for whom), a race, a forbidden touch of memory or something left
// over, Error{mismatch} when an output stays unwritten.
MscclppRun run_mscclpp(const MscclppPlan& plan, const RankArrays& inputs, const MscclppRunOptions& options);

struct MscclppCheckOptions {
  uint32_t root = 0;
  uint32_t seeds = 20;
};
// Parses, and runs under many interleavings on data of its own; throws as above, and Error{mismatch} when an output is
// not what the collective promises.
void check_mscclpp(std::string_view json, const MscclppCheckOptions& options = {});

}  // namespace banyan::testing
