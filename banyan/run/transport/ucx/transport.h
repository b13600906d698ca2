// UCX as a transport: InfiniBand, RoCE, shared memory, TCP and what else UCX drives, by one set of calls.
//
// UCX itself chooses devices and ways, and is told by its own environment variables (UCX_TLS=rc,sm,self,
// UCX_NET_DEVICES=mlx5_0:1, ...). Lanes therefore have no paths: each is a stream of its own on the same connection.
//
// Between two ranks there is one socket, from the Connector (lane 0), which knows who is who. Over it they exchange
// their UCX addresses when they first have to do with each other, and then only notice by it that the other has died.
// Their data goes by UCX in active messages that show a ticket from the greeting; others' are dropped. But nothing is
// encrypted, and UCX itself listens to whoever reaches its ports: it is for networks whose hosts trust each other.
//
// Bounds: per stream at most 1 MiB is sent and not yet consumed; it waits in a ring of this size at the receiver. A
// stream that is not connected yet takes nothing and shows nothing. UCX may need this process to bring what was written
// on its way: see has_unsent(). The destructor sees to that, for at most half a second.
//
// Throws as LaneTransport: Error{peer_lost}, Error{timed_out}, Error{io} naming the peer; and Error{mismatch} or
// Error{invalid_input} when a peer's greeting is not that of such a transport. Calls about other peers go on working;
// except that a process killed in the middle of a write into shared memory can block UCX's queue for all of its host.
#pragma once

#include <memory>
#include <string>

#include "banyan/run/transport/channel_transport.h"
#include "banyan/run/transport/connector.h"

namespace banyan::run::ucx {

struct Options {
  uint32_t ranks = 0;
  uint32_t lanes = 1;  // with each peer, the same at all ranks
};

// Throws Error{unsupported} where Banyan was built without UCX or none is installed, Error{io} when UCX does not start.
std::unique_ptr<ChannelTransport> make_transport(std::unique_ptr<Connector> connector, const Options& options);

// Why there is none here, or nothing. Loads UCX to find out.
std::string why_unavailable();

}  // namespace banyan::run::ucx
