#include "banyan/run/system/socket_owner.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

constexpr mode_t kOthersWrite = S_IWGRP | S_IWOTH;
constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

bool is_of_root_alone(const struct stat& folder) { return folder.st_uid == 0 && (folder.st_mode & kOthersWrite) == 0; }

// Whether it stands in /run, where root alone makes folders.
bool is_in_run(const FileDescriptor& folder) {
  struct stat run {
  }, above{};
  return stat("/run", &run) == 0 && fstatat(folder.get(), "..", &above, 0) == 0 && run.st_dev == above.st_dev &&
         run.st_ino == above.st_ino && is_of_root_alone(run);
}

// Whether the folder makes this user one who may listen at the socket `name` in it.
bool is_given_to(uid_t user, const FileDescriptor& folder, const std::string& name) {
  struct stat own {
  }, socket{};
  if (fstat(folder.get(), &own) != 0 || fstatat(folder.get(), name.c_str(), &socket, 0) != 0) return false;
  if (is_of_root_alone(own)) return socket.st_uid == user;
  return own.st_uid == user && (own.st_mode & kOthersWrite) == 0 && is_in_run(folder);
}

void expect_listener(int socket, const FileDescriptor& folder, const std::string& name, const std::string& path) {
  ucred listener{};
  socklen_t length = sizeof listener;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &listener, &length) != 0) {
    throw system_error("cannot ask who listens at " + path);
  }
  if (listener.uid == 0 || listener.uid == geteuid() || is_given_to(listener.uid, folder, name)) return;
  throw Error(ErrorCode::invalid_usage,
              "user " + std::to_string(listener.uid) + " listens at " + path +
                  ", who is neither root nor this user and could read and change what is sent there; name the socket "
                  "of a daemon that root or this user has started");
}

struct Place {
  FileDescriptor folder;
  std::string name;
};

Place place_of(const std::string& path) {
  if (path.empty() || path.size() > kLongestPath || path.find('\0') != std::string::npos || path.back() == '/') {
    throw Error(ErrorCode::invalid_input,
                in_quotes(path) + " cannot be the path of a socket: it is empty, a folder, or longer than " +
                    std::to_string(kLongestPath) + " characters");
  }
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  Place place{.folder = FileDescriptor(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
              .name = path.substr(slash + 1)};
  if (place.folder.is_open()) return place;
  if (errno == ENOENT || errno == ENOTDIR) throw Error(ErrorCode::not_found, "nobody listens at " + path);
  throw system_error("cannot open the folder of " + path);
}

sockaddr_un address_in(const Place& place, const std::string& path) {
  const std::string whole = "/proc/self/fd/" + std::to_string(place.folder.get()) + "/" + place.name;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (whole.size() > kLongestPath) {
    throw Error(ErrorCode::invalid_input, "the name of the socket " + in_quotes(path) + " is too long");
  }
  std::memcpy(address.sun_path, whole.c_str(), whole.size() + 1);
  return address;
}

FileDescriptor new_socket(int type, int send_buffer) {
  FileDescriptor socket(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) throw system_error("cannot make a socket");
  // The kernel takes no message that is longer than this.
  if (send_buffer > 0 && setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer) != 0) {
    throw system_error("cannot have a socket take long messages");
  }
  return socket;
}

}  // namespace

void expect_trusted(int socket, const std::string& path) {
  const Place place = place_of(path);
  expect_listener(socket, place.folder, place.name, path);
}

FileDescriptor call_trusted(const std::string& path, int type, const std::function<bool()>& wait, int send_buffer) {
  const Place place = place_of(path);
  const sockaddr_un address = address_in(place, path);
  for (;;) {
    FileDescriptor socket = new_socket(type, send_buffer);
    if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      expect_listener(socket.get(), place.folder, place.name, path);
      return socket;
    }
    const int why = errno;
    if (access("/proc/self/fd", X_OK) != 0) throw system_error("cannot call " + path + ", since /proc is missing");
    if (why == ENOENT || why == ENOTDIR || why == ECONNREFUSED) {
      throw Error(ErrorCode::not_found, "nobody listens at " + path + " (" + std::strerror(why) + ")");
    }
    if (why != EAGAIN && why != EINTR) throw system_error("cannot call " + path, why);
    // Too many call at the same time, and nothing tells when there is room again.
    if (!wait()) throw Error(ErrorCode::timed_out, "too many call " + path + " at the same time");
  }
}

bool is_own_folder(const std::string& folder) {
  const FileDescriptor opened(open(folder.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!opened.is_open() && errno == ENOENT) return false;
  if (!opened.is_open() && errno != ENOTDIR && errno != ELOOP) throw system_error("cannot open " + folder);
  struct stat info {};
  if (opened.is_open() && fstat(opened.get(), &info) != 0) throw system_error("cannot look at " + folder);
  if (opened.is_open() && info.st_uid == geteuid() && (info.st_mode & kOthersWrite) == 0) return true;
  const std::string what = !opened.is_open()          ? " is a link or no folder"
                           : info.st_uid != geteuid() ? " belongs to user " + std::to_string(info.st_uid)
                                                      : " can be written to by others";
  throw Error(ErrorCode::invalid_usage, folder + what +
                                            "; a folder of this user alone is needed there (mode 700), since whoever "
                                            "may write to it could stand in for the daemon");
}

bool is_open_to_all(const std::string& folder) {
  struct stat info {};
  if (stat(folder.empty() ? "." : folder.c_str(), &info) != 0) return false;
  return (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0;
}

}  // namespace banyan::run
