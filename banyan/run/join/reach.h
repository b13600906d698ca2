// Which of the addresses on the cards of a meeting lead from here to their process.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/run/join/endpoint_record.h"

namespace banyan::run {

// Leaves on each card the addresses that rank `own` may call. One that is valid on a link only (fe80::1%eth0) gets the
// interface by which this process is on that link, as its own card names it; without any it goes. O(addresses).
void keep_reachable(std::vector<EndpointRecord>& cards, uint32_t own);

}  // namespace banyan::run
