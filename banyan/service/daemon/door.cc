#include "banyan/service/daemon/door.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>

#include "banyan/base/error.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

constexpr int kWaitingClients = 128;
constexpr char kComing = '~';  // behind the path of a socket at which nobody listens yet

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    throw Error(ErrorCode::invalid_input, "'" + path + "' cannot be the path of a socket: it is empty or longer than " +
                                              std::to_string(sizeof address.sun_path - 1) + " characters");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

run::FileDescriptor new_socket(DoorKind kind) {
  const int type = kind == DoorKind::tenants ? SOCK_SEQPACKET : SOCK_STREAM;
  run::FileDescriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) throw run::system_error("cannot make a socket");
  return socket;
}

// Whether the process that listens is dead but for a thread that waits for a file system of a user (tenant_threads.h):
// so long its sockets stay.
bool is_listener_dead(const run::FileDescriptor& caller) {
  ucred listener{};
  socklen_t length = sizeof listener;
  if (getsockopt(caller.get(), SOL_SOCKET, SO_PEERCRED, &listener, &length) != 0) return false;
  return run::status_of(listener.pid, "State").find("Z (zombie)") != std::string::npos;
}

void expect_nobody_listens(const std::string& path, DoorKind kind, const sockaddr_un& address) {
  const run::FileDescriptor probe = new_socket(kind);
  const bool is_let_in = connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  if (is_let_in && is_listener_dead(probe)) return;
  if (is_let_in || errno == EAGAIN) {
    throw Error(ErrorCode::invalid_usage, "a daemon listens at " + path + " already");
  }
}

}  // namespace

run::FileDescriptor listen_at(const std::string& path, DoorKind kind, bool is_for_all_users) {
  const sockaddr_un address = address_of(path);
  expect_nobody_listens(path, kind, address);
  // Who finds the socket finds somebody who listens.
  const std::string coming = path + kComing;
  const sockaddr_un first = address_of(coming);
  unlink(coming.c_str());
  run::FileDescriptor socket = new_socket(kind);
  const mode_t mode = is_for_all_users ? 0666 : 0600;
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&first), sizeof first) != 0 ||
      chmod(coming.c_str(), mode) != 0 || listen(socket.get(), kWaitingClients) != 0 ||
      rename(coming.c_str(), path.c_str()) != 0) {
    throw run::system_error("cannot listen at " + path);
  }
  return socket;
}

void expect_path_of_socket(const std::string& path) { address_of(path + kComing); }

HttpPlace HttpPlace::parse(const std::string& text) {
  const size_t colon = text.rfind(':');
  HttpPlace place;
  const char* const end = text.data() + text.size();
  const char* const digits = colon == std::string::npos ? end : text.data() + colon + 1;
  const auto [behind, trouble] = std::from_chars(digits, end, place.port);
  if (trouble != std::errc() || behind != end) {
    throw Error(ErrorCode::invalid_input, in_quotes(text) + " is no address and port such as 127.0.0.1:9420");
  }
  place.address = text.substr(0, colon);
  if (place.address.starts_with('[') && place.address.ends_with(']')) {
    place.address = place.address.substr(1, place.address.size() - 2);
  }
  return place;
}

run::FileDescriptor listen_on(const HttpPlace& place) { return run::Listener::on(place.address, place.port).take(); }

std::string place_of(const run::FileDescriptor& listening) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(listening.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  if (address.ss_family == AF_UNIX) {
    const auto* const name = reinterpret_cast<const sockaddr_un*>(&address);
    std::string path(name->sun_path, strnlen(name->sun_path, sizeof name->sun_path));
    if (path.ends_with(kComing)) path.pop_back();  // the kernel knows the name that it had first
    return path.empty() ? path : "unix:" + path;
  }
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(), port.data(), port.size(),
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  const std::string name = host.data();
  return "http://" + (address.ss_family == AF_INET6 ? "[" + name + "]" : name) + ":" + port.data();
}

}  // namespace banyan::service
