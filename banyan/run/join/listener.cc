#include "banyan/run/join/listener.h"

#include "banyan/run/join/socket_address.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {

Listener Listener::on(const std::string& address, uint16_t port) {
  SocketAddress bound = SocketAddress::parse(address, port);
  FileDescriptor socket = make_tcp_socket(bound.family());
  const int on = 1;  // a port that was asked for is free as soon as nobody listens, whatever connections linger
  if (port != 0 && setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) {
    throw system_error("cannot set SO_REUSEADDR");
  }
  // All ranks may call at once, and strangers too.
  constexpr int kBacklog = 4096;
  if (bind(socket.get(), bound.get(), bound.size) != 0 || listen(socket.get(), kBacklog) != 0 ||
      getsockname(socket.get(), bound.get(), &bound.size) != 0) {
    throw system_error("cannot listen on " + address + (port == 0 ? "" : " port " + std::to_string(port)));
  }
  return Listener(std::move(socket), bound.port());
}

bool Listener::can_be_on(const std::string& address) {
  const SocketAddress bound = SocketAddress::parse(address, 0);
  const FileDescriptor socket = make_tcp_socket(bound.family());
  if (bind(socket.get(), bound.get(), bound.size) == 0) return true;
  if (errno == EADDRNOTAVAIL) return false;
  throw system_error("cannot listen on " + address);
}

}  // namespace banyan::run
