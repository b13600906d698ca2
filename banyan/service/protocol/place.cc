#include "banyan/service/protocol/place.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/run/system/socket_owner.h"
#include "banyan/run/system/system_error.h"

namespace banyan::service {
namespace {

std::string folder_of(const std::string& socket) { return std::filesystem::path(socket).parent_path(); }

// Only where nobody but this user can have put it there.
std::string checked_socket_of_user() {
  std::string socket = socket_of_user();
  try {
    run::is_own_folder(folder_of(socket));
  } catch (const Error& error) {
    throw Error(error.code(), error.message() + "; or name the service by BANYAN_SERVICE, to operators by --at");
  }
  return socket;
}

}  // namespace

std::string socket_of_host() { return "/run/banyan/banyand.sock"; }

std::string socket_of_user() {
  const char* const folder = std::getenv("XDG_RUNTIME_DIR");
  const bool has_folder = folder != nullptr && *folder != '\0';
  return (has_folder ? std::string(folder) : "/tmp/banyan-service-" + std::to_string(getuid())) + "/banyand.sock";
}

std::string default_socket() { return geteuid() == 0 ? socket_of_host() : socket_of_user(); }

std::string found_socket() {
  return access(socket_of_host().c_str(), F_OK) == 0 ? socket_of_host() : checked_socket_of_user();
}

void make_folder_of(const std::string& socket) {
  const std::string folder = folder_of(socket);
  if (socket == socket_of_user()) {
    if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw run::system_error("cannot make " + folder);
    run::is_own_folder(folder);
    return;
  }
  std::error_code trouble;
  if (!folder.empty()) std::filesystem::create_directories(folder, trouble);
  if (trouble) throw Error(ErrorCode::io, "cannot make the folder " + folder + ": " + trouble.message());
  expect_safe_folder_of(socket);
}

void expect_safe_folder_of(const std::string& socket) {
  const std::string folder = folder_of(socket);
  if (!run::is_open_to_all(folder)) return;
  throw Error(ErrorCode::invalid_usage, "everybody may write to " + folder +
                                            " and put a socket of theirs in place of " + socket +
                                            "; take that right away (chmod o-w), or name another folder");
}

std::string operator_socket_beside(const std::string& socket) {
  constexpr std::string_view kEnd = ".sock";
  const size_t name = socket.rfind('/') + 1;  // 0 without a folder
  std::string stem = socket.substr(name);
  if (stem.ends_with(kEnd)) stem.resize(stem.size() - kEnd.size());
  return socket.substr(0, name) + (stem == "banyand" ? "" : stem + "-") + "operator.sock";
}

std::string found_operator_socket() {
  const std::string of_host = operator_socket_beside(socket_of_host());
  return access(of_host.c_str(), F_OK) == 0 ? of_host : operator_socket_beside(checked_socket_of_user());
}

}  // namespace banyan::service
