// A node of a Chakra execution trace as it stands in the file, in either form (chakra_binary.h, chakra_json.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/collective_kind.h"

namespace banyan::job::chakra {

enum class NodeType : uint8_t { invalid, metadata, memory_load, memory_store, compute, send, receive, collective };

// The place in this list is the number in the file. The first of two that mean the same is written.
inline constexpr std::array kCollectiveTypes = {CollectiveKind::all_reduce,     CollectiveKind::reduce,
                                                CollectiveKind::all_gather,     CollectiveKind::gather,
                                                CollectiveKind::scatter,        CollectiveKind::broadcast,
                                                CollectiveKind::all_to_all,     CollectiveKind::reduce_scatter,
                                                CollectiveKind::reduce_scatter, CollectiveKind::barrier};

struct TraceNode {
  uint64_t id = 0;
  std::string name;
  int64_t type = 0;  // a NodeType, or a newer one
  std::vector<uint64_t> control_dependencies, data_dependencies;
  uint64_t duration_micros = 0;
  std::string input_values;

  // Attributes; absent: not there.
  std::optional<int64_t> is_cpu_op, comm_type, comm_size, comm_src, comm_dst, comm_tag, num_ops, tensor_size, stream;
  std::optional<int64_t> duration_ps;  // ours, for times that are not whole microseconds
  std::optional<std::string> pg_name;
  std::vector<bool> involved_dim;
};

}  // namespace banyan::job::chakra
