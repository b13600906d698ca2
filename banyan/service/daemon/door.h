// The door of a daemon: the unix socket at which tenants attach.
#pragma once

#include <string>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::service {

// Listens there by SOCK_SEQPACKET, without blocking. `is_for_all_users`: of this host; else for this user and root. A
// socket that is left from a daemon that has ended is replaced; one at which somebody listens is
// Error{invalid_usage}. Throws Error{invalid_input} for what cannot be a path of a socket, Error{io}.
run::FileDescriptor listen_at(const std::string& path, bool is_for_all_users);

}  // namespace banyan::service
