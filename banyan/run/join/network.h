// What this machine is called in the network, and what others are.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// The addresses of a host name; an address is its own. At least one. May take seconds, while name servers are asked.
// Throws Error{not_found}.
std::vector<std::string> addresses_of(const std::string& host);

bool is_loopback(const std::string& address);
// Of this machine: the loopback, or one of its interfaces (in this network namespace).
bool is_own_address(const std::string& address);

// Of a connected socket; empty when it has none.
std::string local_address_of(const FileDescriptor& socket);

// By which others may reach this machine, the best first: that from which packets leave for distant hosts, then those
// of the other interfaces that are up. Those that are valid on one link only (fe80::...) are not among them; the
// loopback is when there is nothing else.
std::vector<std::string> outward_addresses();

std::string host_name();

// "tcp://10.1.2.3:5000" or "tcp://[::1]:5000".
std::string tcp_url(const std::string& host, uint16_t port);

}  // namespace banyan::run
