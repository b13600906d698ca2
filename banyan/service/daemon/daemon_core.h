// DaemonCore: what all parts of a daemon use: its options, the reactor, the rules in force, the log of events, and the
// threads of its users. The parts refer to it, and end before it.
//
// On the reactor's thread, but for what is constant.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "banyan/run/system/reactor.h"
#include "banyan/service/daemon/daemon.h"
#include "banyan/service/operate/event_log.h"
#include "banyan/service/operate/rule_book.h"
#include "banyan/service/session/session_opening.h"
#include "banyan/service/session/tenant_quota.h"
#include "banyan/service/session/tenant_threads.h"

namespace banyan::service {

// This host's name for people: BANYAN_HOST_ID, by which several daemons of one machine differ, else its host name.
std::string name_of_host();

struct DaemonCore {
  // Throws what read_files and RuleBook throw.
  explicit DaemonCore(Daemon::Options given);

  const Daemon::Options options;
  const std::string host;  // as daemons call it
  const SessionMaker maker;
  run::Reactor reactor;
  RuleBook rules;
  EventLog events;
  const std::shared_ptr<TenantThreads> threads = std::make_shared<TenantThreads>();  // shared with executors

  // Has `task` done at once and after every `pause`.
  void every(std::chrono::microseconds pause, const std::function<void()>& task);
  // An event that a program has caused: its account pays for it (TenantAccount::record).
  void record(TenantAccount& account, std::string words);
  // Asks whoever started the daemon to wait until an interface of this host has the address.
  void wait_for_address(const std::string& address) const;
  // Bytes per second of payload by link; empty: no fabric is known.
  std::vector<double> capacities() const { return maker.capacities ? *maker.capacities : std::vector<double>(); }
};

}  // namespace banyan::service
