// PeerOwner: the user at the other end of a connection on this host, as the kernel reports it.
//
// The owner of a TCP socket is the user whose process made it, or accepted it; the kernel tells it of any socket of our
// network namespace (sock_diag(7), and /proc/net/tcp where that is not to be had). A socket whose process has closed it
// has no owner any more, and the kernel says 0 for that: such a one is refused, not taken for root's. So one asks while
// the peer waits for an answer. The owner of a socket never changes, and no other connection can have the same two
// addresses and ports while ours stands. For AF_UNIX it is SO_PEERCRED.
//
// In a user namespace, all users without a number in it look like one (65534). Processes that run as that one cannot be
// told from others, and are refused.
//
// Any thread.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace banyan::run {

// The owner of the socket at the other end of the connected socket `fd`; nothing when there is no such socket any more,
// or the kernel does not tell. The end of a connection that its process has not accepted yet is no such socket. Throws
// Error{io} when there are too few descriptors to ask, as stranger_at() does.
std::optional<uid_t> owner_of_peer(int fd);

// The same from /proc/net/tcp, which costs more where there are many sockets.
std::optional<uid_t> owner_of_peer_by_table(int fd);

// Why the process at the other end is not to be believed without a secret, if so: its user is neither ours nor root.
// "belongs to user 65534, and without a secret only user 1000 is trusted".
std::optional<std::string> stranger_at(int fd);

}  // namespace banyan::run
