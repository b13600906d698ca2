#include "banyan/service/protocol/place.h"

#include <unistd.h>

#include <cstdlib>
#include <string_view>

namespace banyan::service {

std::string socket_of_host() { return "/run/banyan/banyand.sock"; }

std::string socket_of_user() {
  const char* const folder = std::getenv("XDG_RUNTIME_DIR");
  const bool has_folder = folder != nullptr && *folder != '\0';
  return (has_folder ? std::string(folder) : "/tmp/banyan-service-" + std::to_string(getuid())) + "/banyand.sock";
}

std::string default_socket() { return geteuid() == 0 ? socket_of_host() : socket_of_user(); }

std::string found_socket() { return access(socket_of_host().c_str(), F_OK) == 0 ? socket_of_host() : socket_of_user(); }

std::string operator_socket_beside(const std::string& socket) {
  constexpr std::string_view kEnd = ".sock";
  const size_t name = socket.rfind('/') + 1;  // 0 without a folder
  std::string stem = socket.substr(name);
  if (stem.ends_with(kEnd)) stem.resize(stem.size() - kEnd.size());
  return socket.substr(0, name) + (stem == "banyand" ? "" : stem + "-") + "operator.sock";
}

std::string default_operator_socket() { return operator_socket_beside(default_socket()); }

std::string found_operator_socket() {
  const std::string of_host = operator_socket_beside(socket_of_host());
  return access(of_host.c_str(), F_OK) == 0 ? of_host : operator_socket_beside(socket_of_user());
}

}  // namespace banyan::service
