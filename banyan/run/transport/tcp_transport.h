// Streams over TCP on 127.0.0.1, one connection for each pair of ranks that exchange anything.
//
// The parent opens one listener per rank on a port that the kernel chooses. A rank calls the listeners of its peers
// with lower numbers and is called by those with higher ones. Whoever calls says a secret of this run and its rank; any
// local process may call too, is found out by that, and is hung up on.
#pragma once

#include <memory>

#include "banyan/run/transport/transport.h"

namespace banyan::run {

// Connections between all who are peers. Throws Error{io}.
std::unique_ptr<Meeting> make_tcp_meeting(PeerLists peers);

}  // namespace banyan::run
