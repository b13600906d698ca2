#include "banyan/service/daemon/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <systemd/sd-daemon.h>
#include <time.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

struct Kind {
  std::string_view name;  // FileDescriptorName=
  run::FileDescriptor HandedSockets::*place;
  int family, type;
  std::string_view mend;
};
constexpr std::array<Kind, 3> kKinds = {
    {{"tenants", &HandedSockets::tenants, AF_UNIX, SOCK_SEQPACKET, "ListenSequentialPacket=PATH"},
     {"operators", &HandedSockets::operators, AF_UNIX, SOCK_STREAM, "ListenStream=PATH"},
     {"http", &HandedSockets::http, AF_UNSPEC, SOCK_STREAM, "ListenStream=ADDRESS:PORT"}}};

Error refused(const std::string& what) {
  return {ErrorCode::invalid_usage, "systemd hands over a socket that banyand does not take: " + what};
}

bool is_right(int socket, const Kind& kind) {
  constexpr int kListens = 1;
  const int answer = kind.family == AF_UNIX ? sd_is_socket_unix(socket, kind.type, kListens, nullptr, 0)
                                            : sd_is_socket_inet(socket, kind.family, kind.type, kListens, 0);
  if (answer < 0) throw run::system_error("cannot ask what socket '" + std::string(kind.name) + "' is", -answer);
  return answer > 0;
}

void place(run::FileDescriptor socket, const std::string& name, HandedSockets& sockets) {
  for (const Kind& kind : kKinds) {
    if (kind.name != name) continue;
    if (!is_right(socket.get(), kind)) {
      throw refused(in_quotes(name) + " is of another kind; its unit needs " + std::string(kind.mend));
    }
    if ((sockets.*kind.place).is_open()) throw refused(in_quotes(name) + " comes twice; keep one line Listen...=");
    const int flags = fcntl(socket.get(), F_GETFL);
    if (flags < 0 || fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
      throw run::system_error("cannot use the socket '" + name + "' of systemd");
    }
    sockets.*kind.place = std::move(socket);
    return;
  }
  throw refused("its name is " + in_quotes(name) + "; its unit needs FileDescriptorName=tenants, operators or http");
}

struct Freed {
  void operator()(char** names) const {
    for (char** name = names; *name != nullptr; ++name) std::free(*name);
    std::free(names);
  }
};

HandedSockets handed_sockets() {
  char** listed = nullptr;
  const int count = sd_listen_fds_with_names(1, &listed);
  const std::unique_ptr<char*, Freed> names(listed);
  if (count < 0) {
    throw Error(ErrorCode::invalid_usage,
                std::string("LISTEN_FDS, LISTEN_FDNAMES or LISTEN_PID is wrong: ") + std::strerror(-count));
  }
  HandedSockets sockets;
  for (int i = 0; i < count; ++i) {
    place(run::FileDescriptor(SD_LISTEN_FDS_START + i), names.get()[i], sockets);
  }
  return sockets;
}

std::optional<std::chrono::microseconds> asked_patience() {
  uint64_t microseconds = 0;
  const int answer = sd_watchdog_enabled(0, &microseconds);
  if (answer < 0) {
    throw Error(ErrorCode::invalid_usage,
                std::string("WATCHDOG_USEC or WATCHDOG_PID is wrong: ") + std::strerror(-answer));
  }
  if (answer == 0) return std::nullopt;
  return std::chrono::microseconds(microseconds);
}

// Where nobody listens any more, nobody is to be told.
void tell(const std::string& state) {
  if (const int answer = sd_notify(0, state.c_str()); answer < 0) {
    BANYAN_LOG(warning) << "systemd cannot be told " << in_quotes(state) << ": " << std::strerror(-answer);
  }
}

}  // namespace

ServiceManager::ServiceManager() : sockets_(handed_sockets()), patience_(asked_patience()) {}

void ServiceManager::ready(const std::string& status) const { tell("READY=1\nSTATUS=" + status); }

// The time is that of the clock by which systemd tells whether a READY=1 is of before.
void ServiceManager::reloading(const std::string& status) const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto microseconds = uint64_t(now.tv_sec) * 1'000'000 + uint64_t(now.tv_nsec) / 1'000;
  tell("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds) + "\nSTATUS=" + status);
}

void ServiceManager::stopping() const { tell("STOPPING=1\nSTATUS=stopping"); }

void ServiceManager::is_now(int process) const { tell("MAINPID=" + std::to_string(process)); }

void ServiceManager::alive() const { tell("WATCHDOG=1"); }

}  // namespace banyan::service
