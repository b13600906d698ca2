#include "banyan/run/system/ds_field.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

#include "banyan/base/check.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {

void mark_packets(int socket, uint8_t dscp) {
  CHECK(dscp <= kMostDscp) << int{dscp};
  int family = AF_UNSPEC;
  socklen_t size = sizeof family;
  if (getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0)
    throw system_error("cannot tell what a socket is");
  if (family != AF_INET && family != AF_INET6) return;
  const int field = dscp << 2;  // the lower two bits are TCP's own, which the kernel keeps
  bool is_marked = family != AF_INET6 || setsockopt(socket, IPPROTO_IPV6, IPV6_TCLASS, &field, sizeof field) == 0;
  // IPv6 sockets carry IPv4 as well.
  is_marked = is_marked && setsockopt(socket, IPPROTO_IP, IP_TOS, &field, sizeof field) == 0;
  if (!is_marked) throw system_error("cannot mark the packets of a connection with DSCP " + std::to_string(dscp));
}

}  // namespace banyan::run
