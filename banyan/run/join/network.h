// The names and addresses of this machine in the network, and of others.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// Addresses that are valid on one link only carry its interface, on the machine that names them: "fe80::1%eth0".

// The addresses of a host name; an address is its own. At least one. May take seconds, while name servers are asked.
// Throws Error{not_found}; Error{invalid_input} for an address that needs an interface and has none.
std::vector<std::string> addresses_of(const std::string& host);

// Valid on one link only: "fe80::1%eth0".
bool is_link_local(const std::string& address);
// The same address as a machine calls it that is on the same link by its interface `zone`. Others stay as they are.
std::string with_zone(const std::string& address, const std::string& zone);
// "eth0" of "fe80::1%eth0"; empty where there is none.
std::string zone_of(const std::string& address);

// "lo, eth0, docker0 (down)": those of this machine (in this network namespace). Throws Error{io}.
std::string list_interfaces();

// The addresses of the interface of this machine with this name, except those that are valid on one link only; the IPv4
// ones if it has any. Empty when there is none.
std::vector<std::string> addresses_of_interface(const std::string& name);

bool is_loopback(const std::string& address);
// True if the loopback is down: processes of this machine (in this network namespace) do not reach each other at all
// then, since calls to another address of it go by the loopback, too. Throws Error{io}.
bool is_loopback_down();
// "::" when one of them is of IPv6, else "0.0.0.0": for all addresses of this machine.
std::string any_address_like(const std::vector<std::string>& addresses);
// True for an address of this machine: of the loopback, or of one of its interfaces (in this network namespace).
bool is_own_address(const std::string& address);

// The address of this end of a connected socket; empty when it has none.
std::string local_address_of(const FileDescriptor& socket);

// The addresses by which others may reach this machine, the best first: that from which packets leave for distant
// hosts, then those of the other interfaces that are up. Those that are valid on one link only (fe80::...) are not
// among them; the loopback is when there is nothing else.
std::vector<std::string> outward_addresses();

// "tcp://10.1.2.3:5000" or "tcp://[::1]:5000".
std::string tcp_url(const std::string& host, uint16_t port);

}  // namespace banyan::run
