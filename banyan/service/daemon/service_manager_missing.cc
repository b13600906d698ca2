// ServiceManager of a build without libsystemd.
#include <unistd.h>

#include <cstdlib>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/service/daemon/service_manager.h"

namespace banyan::service {
namespace {

constexpr const char* kMend = "this banyand was built without libsystemd; build it with Debian's libsystemd-dev";

bool is_set(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

// Sockets for another process are none of ours.
bool are_sockets_ours() {
  const char* const process = std::getenv("LISTEN_PID");
  return is_set("LISTEN_FDS") && process != nullptr && process == std::to_string(getpid());
}

}  // namespace

ServiceManager::ServiceManager() {
  if (are_sockets_ours()) {
    throw Error(ErrorCode::unsupported,
                std::string("systemd hands over sockets (LISTEN_FDS), which cannot be taken: ") + kMend +
                    ", or start it without a unit of sockets");
  }
  if (is_set("NOTIFY_SOCKET")) {
    BANYAN_LOG(warning) << "systemd will not hear that the daemon is ready and lives: " << kMend
                        << ", or start it by a unit with Type=exec and without WatchdogSec=";
  }
}

run::FileDescriptor ServiceManager::take_kept(const std::string&) { return {}; }
void ServiceManager::keep(const std::string&, const run::FileDescriptor&) {}
void ServiceManager::forget_rest() {}
bool ServiceManager::is_there() const { return is_set("NOTIFY_SOCKET"); }
void ServiceManager::status(const std::string&) const {}
void ServiceManager::waiting(const std::string&) const {}
void ServiceManager::ready(const std::string&) const {}
void ServiceManager::reloading(const std::string&) const {}
void ServiceManager::stopping() const {}
void ServiceManager::is_now(int) const {}

void ServiceManager::alive() const {}

}  // namespace banyan::service
