#include "lab/network_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::lab {

InNamespace::InNamespace(const std::string& name) : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  if (!before_.is_open()) throw system_error("cannot open /proc/thread-self/ns/net");
  const FileDescriptor wanted(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!wanted.is_open()) {
    throw Error(ErrorCode::not_found, "there is no network namespace '" + name + "': " + std::strerror(errno));
  }
  if (setns(wanted.get(), CLONE_NEWNET) != 0) throw system_error("cannot enter the network namespace '" + name + "'");
}

InNamespace::~InNamespace() {
  CHECK_EQ(setns(before_.get(), CLONE_NEWNET), 0) << "cannot go back to the own network: " << std::strerror(errno);
}

std::string why_no_namespaces() {
  const pid_t pid = fork();
  if (pid < 0) throw system_error("cannot start a process");
  if (pid == 0) {
    // ip netns mounts what it makes.
    _exit(unshare(CLONE_NEWNET | CLONE_NEWNS) == 0 ? 0 : errno);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) throw system_error("cannot wait for a process");
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  const std::string reason = WIFEXITED(status) ? std::strerror(WEXITSTATUS(status)) : "a process died";
  return "network namespaces are refused here (" + reason +
         "); run as root, in a container with the capabilities SYS_ADMIN and NET_ADMIN";
}

}  // namespace banyan::lab
