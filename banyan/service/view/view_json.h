// Views as JSON (docs/formats/service-view.md).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

std::string to_json(const HostView& view);
std::string to_json(const ClusterView& view);
// Upper bounds of the bytes that parts of it take, with what stands around them: a text; a rank; a communicator without
// its ranks. O(bytes of the texts).
size_t most_json_bytes(std::string_view text);
size_t most_json_bytes(const RankView& rank);
size_t most_json_bytes(const CommunicatorView& communicator);
// Throw Error{invalid_input} naming the field that is missing or wrong. Unknown fields are ignored: daemons of two
// versions may meet.
HostView host_view_from(std::string_view json);
ClusterView cluster_view_from(std::string_view json);

}  // namespace banyan::service
