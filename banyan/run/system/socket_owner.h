// Calls of unix sockets that make sure of the user who answers.
//
// A path is no proof: folders such as /tmp are everybody's, and whoever makes a folder or a socket there first can
// pretend to be the one that is looked for. So the folder is opened and the socket is called in it, whatever the path
// leads to by then; and when the connection stands, the kernel is asked who listens. These listeners are believed:
//   - root, or this user;
//   - the owner of the socket, in a folder that root alone may write to;
//   - the user that root has given a folder of /run to, in that folder.
//
// Any thread.
#pragma once

#include <functional>
#include <string>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// A socket of that type (SOCK_STREAM, SOCK_SEQPACKET), connected to `path`, which does not block. While too many call
// at the same time, `wait` is asked, which sleeps for a moment: false gives up. `send_buffer`: its bytes; 0: as the
// kernel has it. Throws Error{not_found} where nobody listens, Error{invalid_usage} that names the user where it is a
// stranger who does, Error{timed_out} where `wait` gave up, Error{invalid_input} for what cannot be the path of a
// socket, Error{io}, also where this user may not call.
FileDescriptor call_trusted(const std::string& path, int type, const std::function<bool()>& wait, int send_buffer = 0);

// The same check of the listener, for a socket that somebody else has connected to `path`. Throws Error{invalid_usage},
// Error{io}.
void expect_trusted(int socket, const std::string& path);

// True if there is such a folder. Throws Error{invalid_usage} where it is another user's, others may write to it, or it
// is a link or no folder: so nobody else decides what is in it. Error{io}.
bool is_own_folder(const std::string& folder);

// True for a folder that everybody may write to, and take away what others have in it: not for /tmp, where the latter
// is not so. False if there is no such folder.
bool is_open_to_all(const std::string& folder);

}  // namespace banyan::run
