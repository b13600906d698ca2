#include "banyan/run/join/network.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <memory>

#include "banyan/run/join/socket_address.h"
#include "banyan/run/system/awake_time.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

// By its name, or its number where it has none (any more).
std::string interface_name(uint32_t index) {
  std::array<char, IF_NAMESIZE> name{};
  return if_indextoname(index, name.data()) != nullptr ? name.data() : std::to_string(index);
}

// Without port; IPv4 addresses in both families alike. Empty for other families.
std::string text_of(const sockaddr* address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address->sa_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(address)->sin_addr, text.data(), text.size());
  } else if (address->sa_family == AF_INET6) {
    const auto* whole = reinterpret_cast<const sockaddr_in6*>(address);
    const in6_addr& v6 = whole->sin6_addr;
    if (IN6_IS_ADDR_V4MAPPED(&v6)) {
      inet_ntop(AF_INET, &v6.s6_addr[12], text.data(), text.size());
    } else {
      inet_ntop(AF_INET6, &v6, text.data(), text.size());
      if (IN6_IS_ADDR_LINKLOCAL(&v6) && whole->sin6_scope_id != 0) {
        return std::string(text.data()) + "%" + interface_name(whole->sin6_scope_id);
      }
    }
  }
  return text.data();
}

bool is_v6(const std::string& address) { return address.find(':') != std::string::npos; }

void add_once(std::vector<std::string>& list, const std::string& text) {
  if (!text.empty() && std::ranges::find(list, text) == list.end()) list.push_back(text);
}

template <typename Visit>
void visit_interfaces(Visit visit) {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) throw system_error("cannot list the network interfaces");
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, freeifaddrs);
  for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) visit(*entry);
}

// Of the interfaces that are up.
std::vector<std::string> interface_addresses() {
  std::vector<std::string> addresses;
  visit_interfaces([&](const ifaddrs& entry) {
    if (entry.ifa_addr != nullptr && (entry.ifa_flags & IFF_UP) != 0) add_once(addresses, text_of(entry.ifa_addr));
  });
  return addresses;
}

// From which this machine would send to `target`. Connecting a datagram socket sends nothing.
std::string address_towards(const std::string& target) {
  SocketAddress address = SocketAddress::parse(target, 9);
  const FileDescriptor socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open() || connect(socket.get(), address.get(), address.size) != 0) return {};
  return local_address_of(socket);
}

}  // namespace

bool is_link_local(const std::string& address) { return address.starts_with("fe80:"); }

std::string zone_of(const std::string& address) {
  const size_t mark = address.find('%');
  return mark == std::string::npos ? "" : address.substr(mark + 1);
}

std::string with_zone(const std::string& address, const std::string& zone) {
  return is_link_local(address) && !zone.empty() ? address.substr(0, address.find('%')) + "%" + zone : address;
}

std::string list_interfaces() {
  std::vector<std::string> names;
  visit_interfaces([&](const ifaddrs& entry) {
    add_once(names, entry.ifa_name + std::string((entry.ifa_flags & IFF_UP) != 0 ? "" : " (down)"));
  });
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return list.empty() ? "none" : list;
}

std::vector<std::string> addresses_of(const std::string& host) {
  if (is_link_local(host)) return {text_of(SocketAddress::parse(host, 0).get())};
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  hints.ai_flags = AI_NUMERICHOST;
  int rc = getaddrinfo(host.c_str(), nullptr, &hints, &first);
  if (rc == EAI_NONAME) {
    const AwakeTicks ticks;  // name servers may take their time, which counts
    hints.ai_flags = 0;
    rc = getaddrinfo(host.c_str(), nullptr, &hints, &first);
  }
  if (rc != 0) {
    throw Error(ErrorCode::not_found, "the host '" + host + "' is not known: " +
                                          (rc == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(rc)));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(first, freeaddrinfo);
  std::vector<std::string> addresses;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    add_once(addresses, text_of(entry->ai_addr));
  }
  if (addresses.empty()) throw Error(ErrorCode::not_found, "the host '" + host + "' has no IP address");
  return addresses;
}

std::vector<std::string> addresses_of_interface(const std::string& name) {
  std::vector<std::string> v4, v6;
  visit_interfaces([&](const ifaddrs& entry) {
    if (entry.ifa_addr == nullptr || name != entry.ifa_name) return;
    const std::string address = text_of(entry.ifa_addr);
    if (!is_link_local(address)) add_once(is_v6(address) ? v6 : v4, address);
  });
  return v4.empty() ? v6 : v4;
}

std::string any_address_like(const std::vector<std::string>& addresses) {
  return std::ranges::any_of(addresses, is_v6) ? "::" : "0.0.0.0";
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

bool is_loopback_down() {
  bool is_down = false;
  visit_interfaces(
      [&](const ifaddrs& entry) { is_down = is_down || (entry.ifa_flags & (IFF_LOOPBACK | IFF_UP)) == IFF_LOOPBACK; });
  return is_down;
}

bool is_own_address(const std::string& address) {
  if (is_loopback(address)) return true;
  const std::vector<std::string> own = interface_addresses();
  const bool has_zone = !zone_of(address).empty();  // which may be a number
  const std::string wanted = has_zone ? addresses_of(address).front() : address;
  return std::ranges::find(own, wanted) != own.end();
}

std::string local_address_of(const FileDescriptor& socket) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (getsockname(socket.get(), address.get(), &address.size) != 0) return {};
  return text_of(address.get());
}

std::vector<std::string> outward_addresses() {
  std::vector<std::string> addresses;
  // Reserved for documentation, so in nobody's network: the default route leads there.
  std::vector<std::string> candidates = interface_addresses();
  candidates.insert(candidates.begin(), {address_towards("192.0.2.1"), address_towards("2001:db8::1")});
  for (const std::string& address : candidates) {
    if (!is_loopback(address) && !is_link_local(address)) add_once(addresses, address);
  }
  if (addresses.empty()) addresses.push_back("127.0.0.1");
  return addresses;
}

std::string tcp_url(const std::string& host, uint16_t port) {
  return "tcp://" + (is_v6(host) ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace banyan::run
