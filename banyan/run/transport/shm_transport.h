// Streams through memory that all ranks share: one ring of bytes (byte_ring.h) per directed pair. No lock, no system
// call while both are busy.
//
// A rank with nothing to do sleeps on its *doorbell*, a counter that peers increase after every write to it, and after
// every read that makes room for which it waits. It compares the counter with what it was before its last look at the
// rings, so no ring is lost: see ShmTransport::wait. Ranks usually outnumber cores, so it gives up its core at once.
//
// A dead peer is not noticed here: memory does not tell. The parent process does (processes.h).
#pragma once

#include <cstddef>
#include <memory>

#include "banyan/run/transport/transport.h"

namespace banyan::run {

struct ShmOptions {
  size_t ring_bytes = size_t{256} << 10;   // wanted for each directed pair; rounded up to a power of two
  size_t total_bytes = size_t{512} << 20;  // rings shrink, to a page at least, until all fit into this
};

// Rings between all who are peers. Throws Error{io}.
std::unique_ptr<Meeting> make_shm_meeting(PeerLists peers, const ShmOptions& options = {});

}  // namespace banyan::run
