// LinkCheck: how fast a direction of a cable really is, by a TCP connection between its two ends.
#pragma once

#include <chrono>

#include "lab/lab.h"

namespace banyan::lab {

// Bytes per second of payload from one end of a cable to the other over `duration`, after a fifth of it has passed.
// Both ends are in this process and thread. 0 when nothing comes through. Throws Error{io}.
double measure_link(const Lab& lab, uint32_t cable, NodeId from, std::chrono::milliseconds duration);

}  // namespace banyan::lab
