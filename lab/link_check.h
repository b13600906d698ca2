// LinkCheck: how fast a direction of a cable really is, and what streams that share it get, by TCP connections.
#pragma once

#include <chrono>
#include <vector>

#include "lab/lab.h"

namespace banyan::lab {

// From an address of one host to an address of another.
struct Stream {
  NodeId from{}, to{};
  Address from_address, to_address;
  uint8_t dscp = 0;  // of its packets (link_queue.h); what the receiver answers has none
};

// Bytes per second of payload of each stream, all at the same time over `duration`, after a fifth of it has passed.
// All ends are in this process and thread. 0 when nothing comes through. Throws Error{io}.
std::vector<double> measure_streams(const Lab& lab, const std::vector<Stream>& streams,
                                    std::chrono::milliseconds duration);

// The same of one stream from one end of a cable to the other.
double measure_link(const Lab& lab, uint32_t cable, NodeId from, std::chrono::milliseconds duration);

}  // namespace banyan::lab
