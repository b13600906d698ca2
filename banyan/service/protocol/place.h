// Where a daemon listens, and clients look for it, when nobody says.
#pragma once

#include <string>

namespace banyan::service {

// "/run/banyan/banyand.sock": of the daemon of a host, which root runs.
std::string socket_of_host();
// Of a daemon that a user runs for himself: in $XDG_RUNTIME_DIR, or /tmp/banyan-service-UID.
std::string socket_of_user();
// Where to listen: of the host for root, else of the user.
std::string default_socket();
// Where to attach: at the host's socket if there is one, else at the user's.
std::string found_socket();

// Where operators ask a daemon at whose socket tenants attach: "operator.sock" beside "banyand.sock", and
// "x-operator.sock" beside "x.sock", so that several daemons may have one folder.
std::string operator_socket_beside(const std::string& socket);
// Of a daemon that listens at default_socket().
std::string default_operator_socket();
// Where to ask: the host's daemon if it is there, else the user's.
std::string found_operator_socket();

}  // namespace banyan::service
