// The JSON form of Chakra traces, whose writers agree about little: a list of nodes, or a document that holds one under
// "workload_graph" or "nodes". Keys are taken without regard to case and underscores (Id, node_type, ctrlDeps), types
// by number or by name, and what the binary form keeps in attributes from the node itself or from its list "attr".
#pragma once

#include <functional>

#include "banyan/job/chakra/node.h"
#include "banyan/job/text/trace_source.h"

namespace banyan::job::chakra {

// Throws Error{invalid_input} with the source and the element for what is no such JSON; errors of the callback pass.
void read_json(TraceSource& source, const std::function<void(const TraceNode&)>& visit);

}  // namespace banyan::job::chakra
