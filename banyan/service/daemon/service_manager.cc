#include "banyan/service/daemon/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
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

constexpr std::string_view kKeptPrefix = "banyan-kept-";

// Of the file at this path, which no later one has; nothing where there is none. A name of the store has no colon.
std::string kept_name(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return {};
  return std::string(kKeptPrefix) + std::to_string(file.st_dev) + "-" + std::to_string(file.st_ino) + "-" +
         std::to_string(file.st_ctim.tv_sec) + "." + std::to_string(file.st_ctim.tv_nsec);
}

HandedSockets handed_sockets(std::map<std::string, run::FileDescriptor>& stored) {
  char** listed = nullptr;
  const int count = sd_listen_fds_with_names(1, &listed);
  const std::unique_ptr<char*, Freed> names(listed);
  if (count < 0) {
    throw Error(ErrorCode::invalid_usage,
                std::string("LISTEN_FDS, LISTEN_FDNAMES or LISTEN_PID is wrong: ") + std::strerror(-count));
  }
  HandedSockets sockets;
  for (int i = 0; i < count; ++i) {
    run::FileDescriptor socket(SD_LISTEN_FDS_START + i);
    const std::string name = names.get()[i];
    if (name.starts_with(kKeptPrefix)) {
      stored.insert_or_assign(name, std::move(socket));
    } else {
      place(std::move(socket), name, sockets);
    }
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
void notify(const std::string& state) {
  if (const int answer = sd_notify(0, state.c_str()); answer < 0) {
    BANYAN_LOG(warning) << "systemd cannot be told " << in_quotes(state) << ": " << std::strerror(-answer);
  }
}

}  // namespace

ServiceManager::ServiceManager() : sockets_(handed_sockets(stored_)), patience_(asked_patience()) {}

run::FileDescriptor ServiceManager::take_kept(const std::string& path) {
  const auto found = stored_.extract(kept_name(path));
  return found.empty() ? run::FileDescriptor() : std::move(found.mapped());
}

void ServiceManager::keep(const std::string& path, const run::FileDescriptor& socket) {
  const std::string name = kept_name(path);
  if (name.empty()) return;
  const int descriptor = socket.get();
  const std::string state = "FDSTORE=1\nFDNAME=" + name;
  const int answer = sd_pid_notify_with_fds(0, 0, state.c_str(), &descriptor, 1);
  if (answer < 0) {
    BANYAN_LOG(warning) << "systemd cannot be given the socket at " << path
                        << ", so a crash refuses programs for a moment: " << std::strerror(-answer);
  }
  if (answer > 0) kept_.push_back(name);
}

void ServiceManager::forget_rest() {
  for (const auto& [name, socket] : stored_) notify("FDSTOREREMOVE=1\nFDNAME=" + name);
  stored_.clear();
}

bool ServiceManager::is_there() const {
  const char* const socket = std::getenv("NOTIFY_SOCKET");
  return socket != nullptr && *socket != '\0';
}

void ServiceManager::status(const std::string& status) const { notify("STATUS=" + status); }

void ServiceManager::waiting(const std::string& status) const {
  notify("EXTEND_TIMEOUT_USEC=30000000\nSTATUS=" + status);
}

void ServiceManager::ready(const std::string& status) const { notify("READY=1\nSTATUS=" + status); }

// The time is that of the clock by which systemd tells whether a READY=1 is of before.
void ServiceManager::reloading(const std::string& status) const {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const auto microseconds = uint64_t(now.tv_sec) * 1'000'000 + uint64_t(now.tv_nsec) / 1'000;
  notify("RELOADING=1\nMONOTONIC_USEC=" + std::to_string(microseconds) + "\nSTATUS=" + status);
}

void ServiceManager::stopping() const {
  for (const std::string& name : kept_) notify("FDSTOREREMOVE=1\nFDNAME=" + name);
  notify("STOPPING=1\nSTATUS=stopping");
}

void ServiceManager::is_now(int process) const { notify("MAINPID=" + std::to_string(process)); }

void ServiceManager::alive() const { notify("WATCHDOG=1"); }

}  // namespace banyan::service
