// The record that profilers write of one communication, and its meaning for a Job. Kineto puts it into the args of
// kernels and of record_param_comms ("In msg nelems"), host traces into attributes of their nodes (in_msg_nelems) or,
// before schema 1.1, into positions of their inputs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/job/job.h"

namespace banyan::job::kineto {

struct CommCall {
  enum class Kind : uint8_t { collective, send, receive };
  static constexpr uint32_t kNotListed = UINT32_MAX;

  Kind kind = Kind::collective;
  CollectiveKind collective = CollectiveKind::all_reduce;
  bool kind_known = false;

  std::optional<uint64_t> in_elements, out_elements;
  uint32_t width = 0;  // bytes of an element, 0: unknown

  std::string group;                         // its name, or the number of its object; empty: not said
  bool group_is_object = false;              // the number is an address of the process, another on every rank
  uint32_t group_size = 0;                   // 0: not said
  uint32_t ranks = kNotListed;               // which of Trace::rank_lists has the group's members
  int64_t first_rank = -1, rank_stride = 0;  // of the group, where said

  std::optional<uint32_t> peer;         // of send and receive, else the root: a place in the group
  std::optional<uint32_t> global_peer;  // of send and receive

  bool has_size() const { return width > 0 && (in_elements || out_elements); }
  // Takes from `other` what this leaves open, unless that is of another kind. Both are of one rank.
  void fill_from(const CommCall& other);
};

std::string to_words(const CommCall& call);  // "allreduce", "send"

enum class CommName : uint8_t { none, wrapper, call };

// "allreduce", "_allgather_base", "nccl:all_to_all", "c10d::broadcast_", "gloo:send", "wait": fills the kind of `call`.
// wrapper: a bookkeeping entry that moves nothing (wait, init, start and end of coalescing).
CommName read_comm_name(std::string_view name, CommCall& call);

// Reads the name of a kernel: ncclKernel_AllReduce_RING_LL_Sum_float, ncclDevKernel_SendRecv(...). Returns false for a
// kernel that is no communication; kind_known stays false for a name that does not say what the kernel does (SendRecv,
// Generic).
bool read_kernel_name(std::string_view name, CommCall& call);

// Bytes of an element: "Float", "c10::BFloat16", "Tensor(long int)". 0 for an unknown one.
uint32_t element_width(std::string_view type);

// "[0, 1, 2]". A list that its writer shortened ("[0, 1, ..., 63]", beyond 30) is completed where it is an even
// progression of `size` members, else empty. Empty also for what is no list of ranks.
std::vector<uint32_t> read_rank_list(std::string_view text, uint32_t size);

// In the meaning of Node::bytes, for a group of `members`; nothing when the sizes are not known. Throws
// Error{invalid_input} when it overflows. `fits` becomes false where in and out do not fit each other.
std::optional<uint64_t> comm_bytes(const CommCall& call, uint32_t members, bool& fits);

}  // namespace banyan::job::kineto
