// ServiceManager: systemd, where it has started this process: the sockets that it hands over, and what it is told.
//
// Sockets come by the name that their unit gives them (FileDescriptorName=): tenants, operators, http. Messages go to
// the socket that NOTIFY_SOCKET names; where nobody has set that, they go nowhere, and cost nothing. With WatchdogSec=
// in the unit, systemd ends a daemon of which it has not heard alive() for that long (workers.h).
//
// Sockets at paths of the daemon's own, which systemd did not hand over, are given to its store (FDSTORE=1): when the
// daemon crashes, systemd hands them to the next process, and whoever connects meanwhile waits and is not refused. They
// are stored by a name that is made of the file at the path, so a socket whose path is now another one's is not taken
// up again.
//
// It uses libsystemd, which service_manager.cc alone knows. A build without it takes service_manager_missing.cc: it
// refuses sockets that are handed over rather than to ignore them, and warns that systemd is told nothing.
//
// Made once, before there are threads. Any thread may call what is const.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/service/daemon/door.h"

namespace banyan::service {

class ServiceManager {
 public:
  // Reads LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES, which it takes out of the environment, and WATCHDOG_PID and
  // WATCHDOG_USEC. Throws Error{invalid_usage}, with the line of the unit that mends it, for sockets of other names or
  // kinds; Error{unsupported} for any in a build without libsystemd.
  ServiceManager();

  // Not blocking, and closed in programs that this one executes.
  HandedSockets take_sockets() { return std::move(sockets_); }

  // The socket at this path that an earlier process stored; none if there is none, or the path is another file's now.
  run::FileDescriptor take_kept(const std::string& path);
  // It listens at this path: it is kept until stopping(). Does nothing when the file is gone.
  void keep(const std::string& path, const run::FileDescriptor& socket);
  // Removes sockets that were stored and not taken up again: they are of no use any more.
  void forget_rest();

  // True if there is a manager to be told anything, which starts a daemon again that has ended.
  bool is_there() const;

  // `status`: one line of `systemctl status`.
  void ready(const std::string& status) const;
  void status(const std::string& status) const;
  // It is not ready for half a minute to come, and that is no error.
  void waiting(const std::string& status) const;
  // Until the next ready().
  void reloading(const std::string& status) const;
  void stopping() const;  // and what was kept is not stored any more
  // From now on that process is the daemon.
  void is_now(int process) const;

  // The time within which it wants the next alive(); nothing: it wants none.
  std::optional<std::chrono::microseconds> patience() const { return patience_; }
  void alive() const;

 private:
  std::map<std::string, run::FileDescriptor> stored_;  // by name, of an earlier process
  HandedSockets sockets_;
  std::vector<std::string> kept_;  // names of what this one keeps
  std::optional<std::chrono::microseconds> patience_;
};

}  // namespace banyan::service
