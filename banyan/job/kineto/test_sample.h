// A small training run on a few ranks, carried out by a simulation of its own, with its traces as PyTorch would write
// them and with what is true of it: so that reading and linking are held against what made the traces. Pieces of what
// profilers write can be left out, and the traces damaged as real ones are.
//
// The run, on every rank: a forward pass on the main thread (kernels on stream 7, tensor-parallel allgathers on stream
// 24 among pairs of ranks), a backward pass on autograd's thread (kernels, allreduces of all ranks on stream 20, for
// which stream 7's events are waited), broadcasts of buffers, a reduce-scatter, an all-to-all of two kernels, a message
// to the next rank, an optimizer step that waits for stream 20, a copy to the host and a synchronisation.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "banyan/job/job.h"

namespace banyan::testing {

struct SampleOptions {
  uint32_t ranks = 4;
  uint32_t layers = 3;
  uint32_t steps = 1;

  // Who tells of communications.
  bool kernel_args = true;                                             // NCCL kernels (new Kineto)
  bool operator_args = true;                                           // record_param_comms in the Kineto trace
  enum class Host { none, positional, attributes } host = Host::none;  // schemas 1.0.x and 1.1.x

  // How the files can be linked.
  bool record_ids = true, indices = true;
  bool external_ids = true, correlations = true, runtime = true, arrows = true;
  bool syncs = true;  // cuda_sync events

  // Who tells of groups.
  bool rank_lists = true, distributed_info = true, group_init = true, progressions = true;
  bool group_names = true;  // false: addresses, of another value on each rank

  // Damage. Collectives are counted per rank in the order of launch, over all groups.
  std::set<std::pair<uint32_t, uint32_t>> lost_kernels = {};  // rank, collective: kernel and launch are not there
  std::set<uint32_t> lost_tails = {};                         // ranks whose last quarter of GPU events is not there
  bool missing_parents = false;                   // the host's nodes of broadcasts hang on nodes that are not there
  bool without_ends = false;                      // every seventh operator has no duration
  bool overlapping = false;                       // kernels end after the next one's start
  int64_t gpu_clock = 0;                          // ns added to what GPUs say
  std::map<uint32_t, int64_t> clocks = {};        // by rank: ns added to all
  uint32_t skipped_operators = 0;                 // of the Kineto trace, at its beginning
  std::map<uint32_t, uint64_t> other_bytes = {};  // by rank: elements of the first allreduce
};

struct SampleCall {
  CollectiveKind kind;
  uint64_t bytes;
  uint32_t root;
  std::vector<uint32_t> ranks;  // of the group
  uint32_t group = 0;           // its name
};

struct SampleKernel {
  std::string name, stream;
  int64_t duration_ns;
};

struct SampleRank {
  std::string kineto, host;
  std::vector<SampleCall> calls;      // as launched
  std::vector<SampleKernel> kernels;  // compute only, as launched
  int64_t end_ns = 0;                 // from the first event to the end of everything
};

struct Sample {
  std::vector<SampleRank> ranks;
  std::map<std::string, int64_t> durations;  // ns of a collective, by kind and bytes, see key()
  int64_t message_ns = 0;
  int64_t end_ns = 0;
};

std::string sample_key(CollectiveKind kind, uint64_t bytes);

Sample make_sample(const SampleOptions& options);

}  // namespace banyan::testing
