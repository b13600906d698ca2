// Views as JSON (docs/formats/service-view.md).
#pragma once

#include <string>
#include <string_view>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

std::string to_json(const HostView& view);
std::string to_json(const ClusterView& view);
// Throw Error{invalid_input} naming the field that is missing or wrong. Unknown fields are ignored: daemons of two
// versions may meet.
HostView host_view_from(std::string_view json);
ClusterView cluster_view_from(std::string_view json);

}  // namespace banyan::service
