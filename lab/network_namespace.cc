#include "lab/network_namespace.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/child.h"
#include "banyan/run/system/system_error.h"
#include "lab/tool.h"

namespace banyan::lab {

InNamespace::InNamespace(const std::string& name) : before_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
  if (!before_.is_open()) throw run::system_error("cannot open /proc/thread-self/ns/net");
  const run::FileDescriptor wanted(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
  if (!wanted.is_open()) {
    throw Error(ErrorCode::not_found, "there is no network namespace '" + name + "': " + std::strerror(errno));
  }
  if (setns(wanted.get(), CLONE_NEWNET) != 0)
    throw run::system_error("cannot enter the network namespace '" + name + "'");
}

InNamespace::~InNamespace() {
  CHECK_EQ(setns(before_.get(), CLONE_NEWNET), 0) << "cannot go back to the own network: " << std::strerror(errno);
}

namespace {

// Makes a host with a cable as labs are made of, in namespaces of its own: they go when the process does.
void try_everything() {
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) throw run::system_error("network namespaces are refused here");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("none", "/run", "tmpfs", 0, nullptr) != 0) {
    throw run::system_error("mounts are refused here");
  }
  run_tool({"ip", "netns", "add", "probe"});
  run_tool({"ip", "link", "add", "name", "cable0", "type", "veth", "peer", "name", "cable0", "netns", "probe"});
  run_tool({"ip", "rule", "add", "from", "10.0.0.1", "lookup", "100"});
  run_tool(
      {"tc", "qdisc", "replace", "dev", "cable0", "root", "tbf", "rate", "1mbit", "burst", "32k", "latency", "1ms"});
  const char* setting = "/proc/sys/net/ipv4/ip_forward";
  const run::FileDescriptor file(open(setting, O_WRONLY | O_CLOEXEC));
  if (!file.is_open()) throw run::system_error(std::string("cannot set ") + setting);
}

}  // namespace

std::string why_no_lab() {
  run::ReportingChild probe([]() -> std::string {
    try {
      try_everything();
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  });
  const std::string& reason = probe.read_all();
  if (probe.process().reap() != 0) {
    throw Error(ErrorCode::io, "the process that tried to make a network namespace died");
  }
  if (reason.empty() || reason.find("apt install") != std::string::npos) return reason;
  return reason + "; run as root, in a container with the capabilities SYS_ADMIN and NET_ADMIN";
}

}  // namespace banyan::lab
