// One rank's host trace: which operators PyTorch ran and with what, without times, as ExecutionTraceObserver (before
// 2.0: ExecutionGraphObserver) writes it. Schemas 1.0.x and 1.1.x.
//
// The reader looks for what a Kineto trace of the time does not record: which ranks communicate, and how many bytes. In
// 1.1.x the attributes of `record_param_comms` say so; before, its inputs by position; where there is no such node
// (Gloo before 2.3), the tensors given to `gloo:all_reduce` and the arguments of `c10d::broadcast_` around it. Groups
// stand in the text that a node `## process_group:init ##` carries.
//
// Nodes whose parent is not in the file are kept: the observer misses operators that began before it was switched on,
// and collectives inside of them (the broadcasts of DDP's buffers) got lost in tools that walk from the root.
//
// Memory: 32 bytes a node, and 60 more while it is read; names once each; a communication some 200 bytes more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/job/kineto/comm.h"
#include "banyan/job/kineto/group_table.h"
#include "banyan/job/kineto/kineto.h"
#include "banyan/job/name_table.h"
#include "banyan/job/text/trace_source.h"

namespace banyan::job::kineto {

struct HostNode {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint64_t id = 0;
  int64_t record_id = -1;   // rf_id
  uint32_t name = 0;        // into HostTrace::names
  uint32_t parent = kNone;  // into HostTrace::nodes
  uint32_t comm = kNone;    // into HostTrace::comms
};

struct HostTrace {
  std::string source;
  NameTable names;
  std::vector<HostNode> nodes;  // operators, by id: in the order in which they began. Not: process and thread nodes
  std::vector<CommCall> comms;
  std::vector<ProcessGroup> groups;

  uint64_t node_count = 0;  // in the file
  // Nodes whose parent is not there, later nodes of an id that was there (left out), mended text, and a text that ends
  // within the nodes.
  LinkCounts counts;

  std::string_view name(const HostNode& node) const { return names[node.name]; }
};

// Throws Error{invalid_input} with file, node and byte for what is no host trace, see stream_json.
// Complexity O(nodes log nodes).
HostTrace read_host_trace(TraceSource source);

}  // namespace banyan::job::kineto
