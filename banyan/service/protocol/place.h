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
// Where to attach: at the host's socket if there is one, else at the user's. Throws Error{invalid_usage} where the
// folder of the latter may be written to by others (run/system/socket_owner.h): then nobody knows whose daemon is
// there.
std::string found_socket();

// Where operators ask a daemon at whose socket tenants attach: "operator.sock" beside "banyand.sock", and
// "x-operator.sock" beside "x.sock", so that several daemons may have one folder.
std::string operator_socket_beside(const std::string& socket);
// Of a daemon that listens at default_socket().
std::string default_operator_socket();
// Makes the folder of a socket at which a daemon is to listen: the one of socket_of_user() for this user alone. Throws
// Error{invalid_usage} where others could put a socket of theirs in place of it, Error{io}.
void make_folder_of(const std::string& socket);
// Throws Error{invalid_usage} for a folder, if it is there, in which others could put a socket of theirs.
void expect_safe_folder_of(const std::string& socket);
// Where to ask: the host's daemon if it is there, else the user's. Throws the same.
std::string found_operator_socket();

}  // namespace banyan::service
