// The JSON form of Chakra traces, whose writers agree about little: a list of nodes, a document that holds one under
// "workload_graph" or "nodes", or, as chakra_jsonizer and JSON lines have it, one text a node, the first perhaps of the
// file's metadata. Keys are taken without regard to case and underscores (Id, node_type, ctrlDeps), types
// by number or by name, and what the binary form keeps in attributes from the node itself or from its list "attr".
#pragma once

#include <cstdint>
#include <functional>

#include "banyan/job/chakra/node.h"
#include "banyan/job/text/trace_source.h"

namespace banyan::job::chakra {

enum class JsonForm : uint8_t { none, document, texts };  // none: the binary form

// Decides by the beginning of the text, a MiB at most.
JsonForm json_form(TraceSource source);

// Throws Error{invalid_input} with the source and the element for what is no such JSON; errors of the callback pass.
void read_json(TraceSource& source, JsonForm form, const std::function<void(const TraceNode&)>& visit);

}  // namespace banyan::job::chakra
