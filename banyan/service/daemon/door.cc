#include "banyan/service/daemon/door.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

constexpr int kWaitingClients = 128;

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

run::FileDescriptor new_socket() {
  run::FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) throw run::system_error("cannot make a socket");
  return socket;
}

void expect_nobody_listens(const std::string& path, const sockaddr_un& address) {
  const run::FileDescriptor probe = new_socket();
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN) {
    throw Error(ErrorCode::invalid_usage, "a daemon listens at " + path + " already");
  }
}

}  // namespace

run::FileDescriptor listen_at(const std::string& path, bool is_for_all_users) {
  const sockaddr_un address = address_of(path);
  expect_nobody_listens(path, address);
  // Who finds the socket finds somebody who listens.
  const std::string coming = path + "~";
  const sockaddr_un first = address_of(coming);
  unlink(coming.c_str());
  run::FileDescriptor socket = new_socket();
  const mode_t mode = is_for_all_users ? 0666 : 0600;
  if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&first), sizeof first) != 0 ||
      chmod(coming.c_str(), mode) != 0 || listen(socket.get(), kWaitingClients) != 0 ||
      rename(coming.c_str(), path.c_str()) != 0) {
    throw run::system_error("cannot listen at " + path);
  }
  return socket;
}

}  // namespace banyan::service
