// ServiceManager: systemd, where it has started this process: the sockets that it hands over, and what it is told.
//
// Sockets come by the name that their unit gives them (FileDescriptorName=): tenants, operators, http. Messages go to
// the socket that NOTIFY_SOCKET names; where nobody has set that, they go nowhere, and cost nothing. With WatchdogSec=
// in the unit, systemd ends a daemon of which it has not heard alive() for that long (worker_watch.h).
//
// By libsystemd, known to service_manager.cc alone. A build without it takes service_manager_missing.cc: it refuses
// sockets that are handed over rather than to ignore them, and warns that nobody is told anything.
//
// Made once, before there are threads. Any thread may call what is const.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "banyan/service/daemon/handed_sockets.h"

namespace banyan::service {

class ServiceManager {
 public:
  // Reads LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES, which it takes out of the environment, and WATCHDOG_PID and
  // WATCHDOG_USEC. Throws Error{invalid_usage}, with the line of the unit that mends it, for sockets of other names or
  // kinds; Error{unsupported} for any in a build without libsystemd.
  ServiceManager();

  // Not blocking, and closed in programs that this one executes.
  HandedSockets take_sockets() { return std::move(sockets_); }

  // `status`: one line of `systemctl status`.
  void ready(const std::string& status) const;
  // Until the next ready().
  void reloading(const std::string& status) const;
  void stopping() const;
  // From now on that process is the daemon.
  void is_now(int process) const;

  // Within which it wants to hear alive(); nothing: it does not.
  std::optional<std::chrono::microseconds> patience() const { return patience_; }
  void alive() const;

 private:
  HandedSockets sockets_;
  std::optional<std::chrono::microseconds> patience_;
};

}  // namespace banyan::service
