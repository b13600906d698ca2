// The places where a daemon listens, and clients look for it, unless told otherwise.
#pragma once

#include <string>

namespace banyan::service {

// "/run/banyan/banyand.sock": of the daemon of a host, which root runs.
std::string socket_of_host();
// The socket of a daemon that a user runs for himself: in $XDG_RUNTIME_DIR, or /tmp/banyan-service-UID.
std::string socket_of_user();
// The socket to listen at: the host's for root, else the user's.
std::string default_socket();
// The socket to attach at: the host's if there is one, else the user's. Throws Error{invalid_usage} if others may write
// to the folder of the latter (run/system/socket_owner.h): then nobody knows whose daemon is there.
std::string found_socket();

// The socket at which operators ask a daemon, beside the one at which tenants attach: "operator.sock" beside
// "banyand.sock", and "x-operator.sock" beside "x.sock", so that several daemons may have one folder.
std::string operator_socket_beside(const std::string& socket);
// Makes the folder of a socket at which a daemon is to listen: the one of socket_of_user() for this user alone. Throws
// Error{invalid_usage} where others could put a socket of theirs in place of it, Error{io}.
void make_folder_of(const std::string& socket);
// Throws Error{invalid_usage} for a folder, if it is there, in which others could put a socket of theirs.
void expect_safe_folder_of(const std::string& socket);
// The socket to ask at: that of the host's daemon if it is there, else of the user's. Throws as found_socket().
std::string found_operator_socket();

}  // namespace banyan::service
