// Finds the addresses on the cards of a meeting that lead to their process, and to no other.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/run/join/endpoint_record.h"

namespace banyan::run {

// Writes on the own card what the others must know besides its addresses: which ones this host has that are not among
// them, since a call to one of these from here reaches this host; and that its loopback is down. Throws Error{io}.
void add_own_host(EndpointRecord& own);

// Leaves on each card the addresses that rank `own` may call:
//
//   - Not those that another host has, too (that of docker0 is the same on many): a rank that calls one may reach its
//     own host, and believe its word that the port is closed.
//   - One that is valid on a link only (fe80::1%eth0) gets the interface by which this process is on that link, as its
//     own card names it; without any it goes.
//
// Throws Error{mismatch} naming two ranks, equal on all, when one has no other address than such as another host has;
// Error{io} when several ranks are on a host whose loopback is down. O(addresses).
void keep_reachable(std::vector<EndpointRecord>& cards, uint32_t own);

}  // namespace banyan::run
